"""Averages over caches that share rows: copies of one cache say no more than the cache, seeds add their own spread."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.stats import t as student

from exitbench.benchmarks.run.run_suite import RunOutcome, run_suite
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.task_scores import backbone_tables
from tests.support.seed_caches import seeds_of

COPIES = 48
SIGNALS = ("e-lang", "deebert")


def run_of(caches: list[Path], out: Path, *, protocols: tuple[str, ...] = ("in-sample",), seed: int = 0) -> RunOutcome:
    questions = Questions(
        layers=(1, 2), speed_ups=(1.5,), primary_speed_up=1.5, protocols=protocols, resamples=60, losses=(), seed=seed
    )
    return run_suite(Suite("shared", tuple(caches), SIGNALS, questions), out)


def copies_of(cache: Path, count: int) -> list[Path]:
    return [Path(shutil.copytree(cache, cache.with_name(f"{cache.name}-{number}"))) for number in range(count)]


def keyed(frame: pd.DataFrame, average: bool, *names: str) -> pd.DataFrame:
    rows = frame[(frame.task == "average") == average]
    return rows.set_index([*names, "operating_point", "layer", "decisions", "measure", "protocol"]).sort_index()


@pytest.mark.long
@pytest.mark.parametrize("group_rows", [None, 4])
def test_the_error_of_copies_is_that_of_one(tmp_path: Path, group_rows: int | None) -> None:
    """The defect this stands for: 48 copies took a standard error from 3.00 to 0.43, and a p-value to 1e-20."""
    count = COPIES if group_rows is None else 3
    cache = synthetic_cache(tmp_path / "c", rows=80, layers=3, classes=3, width=8, group_rows=group_rows)
    run = run_of(copies_of(cache, count), tmp_path / "out")
    alone = run_of([cache], tmp_path / "alone").files
    averaged = keyed(run.files.results, True, "signal", "parameters")
    single = keyed(alone.results, False, "signal", "parameters")
    compared = 0
    for key, row in averaged[~averaged.index.get_level_values("signal").isin(["detectable"])].iterrows():
        expected = single.loc[key]
        if row.status == "undefined":  # the one cache has no value that counts
            assert expected.status not in ("ok", "unreliable")
            continue
        np.testing.assert_allclose([row.value, row.std_err], [expected.value, expected.std_err], rtol=1e-9)
        assert row.n == expected.n
        compared += not np.isnan(row.std_err)
    assert compared >= 8
    pairs = keyed(run.files.table("pairs"), True, "signal_a", "signal_b")
    expected_pairs = keyed(alone.table("pairs"), False, "signal_a", "signal_b")
    assert {"accuracy", "dis"} <= set(pairs.index.get_level_values("measure"))
    for key, pair in pairs.iterrows():
        if expected_pairs.loc[key].std_err > 0:
            np.testing.assert_allclose(pair.std_err, expected_pairs.loc[key].std_err, rtol=1e-9)
            normal = 2 * student.sf(abs(pair.difference) / pair.std_err, np.inf)
            assert pair.p_value == pytest.approx(normal, rel=1e-9)
    scores = averaged[averaged.status == "ok"].drop("detectable", level="signal").xs("accuracy", level="measure")
    assert scores.reason.str.contains(f"mean over {count} caches of one task; for these networks only").all()


@pytest.mark.long
def test_five_seeds_add_their_own_spread_with_students_quantile(tmp_path: Path) -> None:
    """Against the definition: rows from the averaged resamples, seeds from the variance of their values."""
    paths = seeds_of(tmp_path, 5)
    run = run_of(paths, tmp_path / "out")
    results = run.files.results
    energy = results[(results.signal == "e-lang")]
    average = energy[(energy.task == "average") & (energy.measure == "dis") & (energy.layer == 2)].iloc[0]
    values, influence = [], []
    for path in paths:
        cache = Cache(path)
        logits = cache.logits(2).double()
        certainty = torch.logsumexp(logits, dim=1).numpy()
        right = logits.argmax(dim=1).numpy() == cache.labels
        wins = (certainty[right][:, None] > certainty[~right][None, :]) + 0.5 * (
            certainty[right][:, None] == certainty[~right][None, :]
        )
        values.append(100 * wins.mean())
        own = np.zeros(cache.rows)
        own[right] = 100 * (wins.mean(axis=1) - wins.mean()) / np.sqrt(right.sum() * (right.sum() - 1))
        own[~right] = 100 * (wins.mean(axis=0) - wins.mean()) / np.sqrt((~right).sum() * ((~right).sum() - 1))
        influence.append(own)
    rows = np.linalg.norm(np.mean(influence, axis=0))
    seeds = np.std(values, ddof=1) / np.sqrt(5)
    assert average.value == pytest.approx(np.mean(values), rel=1e-9)
    assert average.std_err == pytest.approx(np.hypot(rows, seeds), rel=1e-6)
    degrees = (rows**2 + seeds**2) ** 2 / (seeds**4 / 4)
    reach = student.ppf(0.975, degrees) * average.std_err
    assert (average.low, average.high) == pytest.approx((average.value - reach, average.value + reach), rel=1e-6)
    assert "rows crossed with at least 5 networks" in average.reason and "degrees of freedom" in average.reason
    assert average.n == 150  # rows count once


@pytest.mark.long
def test_below_five_seeds_an_average_is_about_these_networks_only(tmp_path: Path) -> None:
    run = run_of(seeds_of(tmp_path, 4), tmp_path / "out", protocols=("in-sample", "cross-fit"))
    results = run.files.results
    averages = results[(results.task == "average") & (results.signal != "detectable")]
    assert averages[averages.status == "ok"].reason.str.contains("for these networks only").all()
    scores = averages[(averages.measure == "accuracy") & (averages.operating_point == "final")]
    assert len(scores) and scores.reason.str.startswith("mean over 4 caches of one task").all()


@pytest.mark.long
def test_every_task_counts_once(tmp_path: Path) -> None:
    paths = [*seeds_of(tmp_path, 3, rows=60, task="t"), *seeds_of(tmp_path, 1, rows=90, task="u")]
    results = run_of(paths, tmp_path / "out").files.results
    final = results[(results.operating_point == "final") & (results.measure == "accuracy")].set_index("cache")
    tasks = [final.loc[[path.name for path in paths[:3]]].value.mean(), final.loc[paths[3].name].value]
    average = final.loc[""]
    assert average.value == pytest.approx(np.mean(tasks))
    assert average.n == 150 and average.reason == "mean over 4 caches of 2 tasks; for these networks only"


@pytest.mark.long
def test_models_on_the_same_rows_have_an_average_that_counts_each_once(tmp_path: Path) -> None:
    paths = [*seeds_of(tmp_path, 2, rows=60), *seeds_of(tmp_path, 1, rows=60, model="n")]
    run = run_of(paths, tmp_path / "out")
    results = run.files.results
    asked = results[(results.operating_point == "speed_up=1.5") & (results.signal == "deebert")]
    scores = asked[(asked.measure == "accuracy") & (asked.decisions == "")].set_index(["model", "cache"])
    single = [scores.loc["m", path.name].value for path in paths[:2]], scores.loc["n", paths[2].name].value
    average = scores.loc["average", ""]
    assert average.task == "t"
    assert average.n == 60  # all networks answer the same rows
    assert average.value == pytest.approx((np.mean(single[0]) + single[1]) / 2)
    assert average.reason.startswith("mean over 3 caches of 2 models; for these networks only")
    assert not len(results[(results.model == "average") & (results.measure == "dis")])
    (table,) = backbone_tables(FinishedRun(tmp_path / "out"))
    assert table.columns[-1].group == "mean over models"
    (cell,) = [row.cells[-1] for row in table.rows if row.cells[0].text == "DeeBERT"]
    assert cell.numbers[0].value == average.value


def test_caches_of_the_same_rows_in_different_groups_are_refused(tmp_path: Path) -> None:
    fours, eights = tmp_path / "fours", tmp_path / "eights"
    paths = [seeds_of(fours, 1, rows=40, group_rows=4)[0], seeds_of(eights, 2, rows=40, group_rows=8)[1]]
    with pytest.raises(InputError, match=r"m-t-s0-dev and m-t-s1-dev have the same rows of task 't'.*same groups"):
        run_of(paths, tmp_path / "out")
