"""The suite ``seeds``: what its run says over seeds and tasks, against literal sums over the rows kept of it."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm
from scipy.stats import t as student

from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache import Cache, read_manifest
from exitbench.places import BASELINES, FIXTURES, cache_directories

KEPT = FIXTURES / "findings" / "seeds"
POINT = "speed_up=1.5"


@pytest.fixture(scope="module")
def results() -> pd.DataFrame:
    return pd.read_parquet(KEPT / "results.parquet")


@pytest.fixture(scope="module")
def across() -> pd.DataFrame:
    return pd.read_parquet(KEPT / "across.parquet")


@pytest.fixture(scope="module")
def scores(results: pd.DataFrame) -> pd.DataFrame:
    """At exactly the primary speed-up: one row per network, one column per entry."""
    asked = results[(results.operating_point == POINT) & (results.decisions == "randomised") & (results.cache != "")]
    asked = asked[(asked.measure == "accuracy") & ~asked.signal.isin(["random", "fixed"])]
    asked = asked.assign(entry=list(zip(asked.signal, asked.parameters, strict=True)))
    return asked.pivot_table(index=["task", "cache"], columns="entry", values="value")


@pytest.mark.long
def test_five_networks_for_every_task_of_one_recipe() -> None:
    caches = load_suite("seeds").caches
    commands: dict[str, set[str]] = {}
    for path in caches:
        manifest = read_manifest(path)
        commands.setdefault(manifest.task.name, set()).add(path.name)
    assert all(len(names) == 5 for names in commands.values())
    for task in commands:
        rows = [Cache(path) for path in caches if read_manifest(path).task.name == task]
        assert all(np.array_equal(each.ids, rows[0].ids) for each in rows), "seeds answer the same rows"
        assert len({read_manifest(each.path).heads.sha256 for each in rows}) == 5  # type: ignore[union-attr]


def test_an_average_is_the_mean_over_tasks_of_the_mean_over_seeds(results: pd.DataFrame, scores: pd.DataFrame) -> None:
    averages = results[(results.task == "average") & (results.operating_point == POINT)]
    averages = averages[(averages.measure == "accuracy") & (averages.decisions == "")]
    compared = 0
    for row in averages.itertuples():
        if (row.signal, row.parameters) in scores and row.status == "ok":
            expected = scores[row.signal, row.parameters].groupby("task").mean().mean()
            assert row.value == pytest.approx(expected)
            assert "rows crossed with at least 5 networks" in row.reason
            compared += 1
    assert compared >= 3


def test_the_variance_between_seeds_has_the_divisor_of_a_sample(across: pd.DataFrame, scores: pd.DataFrame) -> None:
    parts = across[across.statistic == "variance_networks"].set_index(["signal_a", "parameters_a"])
    assert len(parts) >= 3
    for name, row in parts.iterrows():
        by_task = [
            sum((value - sum(task) / 5) ** 2 for value in task) / 4
            for task in scores[name].groupby("task").apply(list)  # type: ignore[index]
        ]
        assert row.value == pytest.approx(sum(by_task) / len(by_task))


def test_better_same_and_worse_are_tails_of_the_averages_own_test(across: pd.DataFrame) -> None:
    pairs = pd.read_parquet(KEPT / "pairs.parquet")
    asked = pairs[(pairs.task == "average") & (pairs.operating_point == POINT) & (pairs.measure == "accuracy")]
    names = ["signal_a", "parameters_a", "signal_b", "parameters_b"]
    tested = asked[(asked.status == "ok") & (asked.decisions == "") & (asked.std_err > 0)].set_index(names)
    shares = across[across.statistic.isin(["better", "same", "worse"])].set_index([*names, "statistic"])
    assert len(tested) >= 3
    for name, pair in tested.iterrows():
        quantile = (pair.high - pair.low) / 2 / pair.std_err
        law = norm if math.isclose(quantile, norm.ppf(0.975), rel_tol=1e-9) else None
        if law is None:
            degrees = np.geomspace(1, 1e7, 4000)
            law = student(np.interp(-quantile, -student.ppf(0.975, degrees), degrees))
        expected = {
            "better": law.sf((0.5 - pair.difference) / pair.std_err),
            "worse": law.cdf((-0.5 - pair.difference) / pair.std_err),
        }
        expected["same"] = 1 - expected["better"] - expected["worse"]
        for statistic, value in expected.items():
            assert shares.loc[(*name, statistic)].value == pytest.approx(value, abs=1e-3)  # type: ignore[misc]


def test_the_interquartile_mean_and_the_chance_of_improvement_are_those_of_fifteen_networks(
    results: pd.DataFrame, across: pd.DataFrame, scores: pd.DataFrame
) -> None:
    asked = results[(results.cache != "") & (results.measure == "accuracy")]
    random = asked[(asked.signal == "random") & (asked.operating_point == POINT)].set_index("cache").value
    oracle = asked[asked.signal == "oracle"].set_index("cache").value
    caches = scores.index.get_level_values("cache")
    low, high = random[caches].to_numpy(), oracle[caches].to_numpy()
    normal = {name: (scores[name].to_numpy() - low) / (high - low) for name in scores}
    means = across[across.statistic == "interquartile_mean"].set_index(["signal_a", "parameters_a"]).value
    assert len(means) >= 3
    weights = [0.0] * 3 + [0.25] + [1.0] * 7 + [0.25] + [0.0] * 3  # 15 runs: the middle half begins at 3.75
    for name, value in means.items():
        assert value == pytest.approx(np.average(np.sort(normal[name]), weights=weights))
    chances = across[across.statistic == "improvement"]
    tasks = scores.index.get_level_values("task").to_numpy()
    for row in chances.itertuples():
        first, second = normal[row.signal_a, row.parameters_a], normal[row.signal_b, row.parameters_b]
        wins = (first > second) + 0.5 * (first == second)
        assert row.value == pytest.approx(np.mean([wins[tasks == task].mean() for task in set(tasks)]))


def test_every_scored_cache_is_held_by_a_baseline() -> None:
    held = {path.name for file in BASELINES.glob("*.csv") for path in load_suite(file.stem).caches}
    scored = {path.name for path in cache_directories() if path.name.endswith("-dev")}
    assert scored - held == set()
