"""Statistics across tasks and networks of a run, against pandas and scipy on the run's own results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import brentq
from scipy.stats import friedmanchisquare, rankdata
from scipy.stats import t as student

from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.errors import InputError
from tests.support.page_runs import suite
from tests.support.seed_caches import seeds_of
from tests.support.table_runs import across_run

pytestmark = pytest.mark.long

SIGNALS = ["e-lang", "deebert", "margin"]
PARAMETERS = {"e-lang": "temperature=1,center=false"}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> RunFiles:
    return RunFiles(across_run(tmp_path_factory))


@pytest.fixture(scope="module")
def across(files: RunFiles) -> pd.DataFrame:
    return pd.DataFrame(files.across())


@pytest.fixture(scope="module")
def scores(files: RunFiles) -> pd.DataFrame:
    """One row per cache: the score of every signal near 1.5x, of random exits there, and of the oracle."""
    results = files.results
    results = results[(results.task != "average") & (results.measure == "accuracy") & (results.decisions == "")]
    results = results[(results.operating_point == "speed_up=1.5") | (results.signal == "oracle")]
    plain = results.parameters.isin(["", *PARAMETERS.values()]) | results.signal.isin(["deebert", "margin"])
    return results[plain & results.layer.isna()].pivot(index=["task", "cache"], columns="signal", values="value")


def test_ranks_are_those_of_task_means(across: pd.DataFrame, scores: pd.DataFrame) -> None:
    means = scores[SIGNALS].groupby("task").mean()
    ranks = np.stack([rankdata(-row) for row in means.to_numpy()]).mean(axis=0)
    mine = across[(across.statistic == "average_rank") & (across.measure == "accuracy")].set_index("signal_a")
    assert mine.loc[SIGNALS].value.to_numpy() == pytest.approx(ranks)
    critical = 2.343 * np.sqrt(3 * 4 / (6 * 6))  # three signals on six tasks, Demsar's table
    assert (mine.high - mine.low).to_numpy() == pytest.approx(np.full(3, critical), rel=1e-3)
    p_value = across[(across.statistic == "friedman_p") & (across.measure == "accuracy")].value.item()
    assert p_value == pytest.approx(friedmanchisquare(*means.to_numpy().T).pvalue)
    assert set(across[across.statistic == "average_rank"].measure) == {"accuracy", "dis"}


def test_a_grid_that_was_chosen_on_the_scored_rows_takes_no_part(across: pd.DataFrame) -> None:
    assert "temperature=2|4,center=false" not in set(across.parameters_a) | set(across.parameters_b)


def test_no_average_and_no_statistic_is_made_of_promises(files: RunFiles, across: pd.DataFrame) -> None:
    protocols = {(row.protocol, bool(row.cache)) for row in files.rows()}
    assert ("certified", True) in protocols
    assert ("certified", False) not in protocols
    assert "certified" not in set(across["protocol"])


def test_scores_are_normalised_between_random_exits_and_the_oracle(across: pd.DataFrame, scores: pd.DataFrame) -> None:
    normal = scores[SIGNALS].sub(scores["random"], axis=0).div(scores["oracle"] - scores["random"], axis=0)
    means = across[across.statistic == "interquartile_mean"].set_index("signal_a")
    for signal in SIGNALS:
        runs = np.sort(normal[signal].to_numpy())  # 30 runs: the middle half begins at 7.5
        weights = np.array([0.0] * 7 + [0.5] + [1.0] * 14 + [0.5] + [0.0] * 7)
        assert means.loc[signal].value == pytest.approx(np.average(runs, weights=weights))
        assert means.loc[signal].low <= means.loc[signal].value <= means.loc[signal].high
        profile = across[(across.statistic == "profile") & (across.signal_a == signal)]
        expected = [(normal[signal] > level).groupby("task").mean().mean() for level in profile.level]
        assert profile.value.to_numpy() == pytest.approx(expected)
    chances = across[across.statistic == "improvement"].set_index(["signal_a", "signal_b"]).value
    wins = (normal["deebert"] > normal["e-lang"]) + 0.5 * (normal["deebert"] == normal["e-lang"])
    assert chances["deebert", "e-lang"] == pytest.approx(wins.groupby("task").mean().mean())
    assert chances["deebert", "e-lang"] + chances["e-lang", "deebert"] == pytest.approx(1.0)


def test_practical_probabilities_come_from_the_test_of_the_average(files: RunFiles, across: pd.DataFrame) -> None:
    pairs = files.table("pairs")
    pairs = pairs[(pairs.task == "average") & (pairs.measure == "accuracy") & (pairs.operating_point == "speed_up=1.5")]
    checked = 0
    for pair in pairs[pairs.status == "ok"].itertuples():
        own = across[(across.signal_a == pair.signal_a) & (across.signal_b == pair.signal_b)]
        chances = own[own.statistic.isin(["better", "same", "worse"])].set_index("statistic").value
        assert chances.sum() == pytest.approx(1.0)
        # The law of the test: its p-value is that of no difference at all.
        reach = (pair.high - pair.difference) / pair.std_err
        degrees = brentq(lambda nu, reach: student.ppf(0.975, nu) - reach, 0.5, 1e6, args=(reach,))
        law = student(degrees, pair.difference, pair.std_err)
        assert 2 * min(law.cdf(0.0), law.sf(0.0)) == pytest.approx(pair.p_value, abs=1e-6)
        assert chances["better"] == pytest.approx(law.sf(0.5), abs=1e-6)
        checked += 1
    assert checked == 3


def test_the_variance_between_networks_is_that_of_their_scores(across: pd.DataFrame, scores: pd.DataFrame) -> None:
    for signal in SIGNALS:
        parts = across[(across.signal_a == signal)].set_index("statistic").value
        assert parts["variance_networks"] == pytest.approx(scores[signal].groupby("task").var(ddof=1).mean())
        between = scores[signal].groupby("task").mean().var(ddof=1)
        left = parts["variance_rows"] + parts["variance_networks"] / 5
        assert parts["variance_tasks"] == pytest.approx(max(between - left, 0.0))
        assert 0 < parts["variance_rows"] < 100


def test_with_few_tasks_and_one_network_each_only_sizes_and_variance_are_said(tmp_path: Path) -> None:
    caches = [*seeds_of(tmp_path, 1, rows=60, task="t"), *seeds_of(tmp_path, 1, rows=50, task="u")]
    questions = {"protocols": ("in-sample",), "speed_ups": (1.5,), "primary_speed_up": 1.5, "layers": (1,)}
    files = run_suite(suite(caches, ["e-lang", "margin"], **questions), tmp_path / "run").files
    frame = pd.DataFrame(files.across())
    assert set(frame.statistic) <= {"better", "same", "worse", "variance_rows", "variance_networks", "variance_tasks"}
    assert frame[frame.statistic == "variance_networks"].value.isna().all()
    (tmp_path / "run" / "across.parquet").write_bytes(b"PAR1 nothing")
    with pytest.raises(InputError, match=r"across\.parquet: expected a parquet file"):
        files.across()
    (tmp_path / "run" / "across.parquet").unlink()
    assert files.across() == []
