"""The suite ``seeds``: what its run says over seeds and tasks, against literal sums over the rows kept of it."""

from __future__ import annotations

import math
from statistics import variance

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


def own_measures() -> dict[str, str]:
    """The measure that each cache's task is scored by."""
    return {path.name: read_manifest(path).task.metric for path in load_suite("seeds").caches}


@pytest.fixture(scope="module")
def scores(results: pd.DataFrame) -> pd.DataFrame:
    """At exactly the primary speed-up, by the task's own measure: one row per network, one column per entry."""
    asked = results[(results.operating_point == POINT) & (results.decisions == "randomised") & (results.cache != "")]
    asked = asked[asked.measure == asked.cache.map(own_measures())]
    asked = asked[~asked.signal.isin(["random", "fixed"])]
    asked = asked.assign(entry=list(zip(asked.signal, asked.parameters, strict=True)))
    return asked.pivot_table(index=["model", "task", "cache"], columns="entry", values="value")


@pytest.mark.long
def test_several_networks_for_every_task_of_one_recipe() -> None:
    rows: dict[tuple[str, str], list[Cache]] = {}
    for path in load_suite("seeds").caches:
        manifest = read_manifest(path)
        rows.setdefault((manifest.model.name, manifest.task.name), []).append(Cache(path))
    assert len([model for model, _ in rows if model == "minilm-l6"]) == 7
    for (model, _), caches in rows.items():
        assert model != "minilm-l6" or len(caches) == 5
        assert all(np.array_equal(each.ids, caches[0].ids) for each in caches), "seeds answer the same rows"
        heads = {read_manifest(each.path).heads.sha256 for each in caches}  # type: ignore[union-attr]
        assert len(heads) == len(caches)


def test_an_average_is_the_mean_over_tasks_of_the_mean_over_seeds(results: pd.DataFrame, scores: pd.DataFrame) -> None:
    averages = results[(results.task == "average") & (results.operating_point == POINT)]
    averages = averages[(averages.measure == "mean_accuracy_f1") & (averages.decisions == "")]
    compared = 0
    for row in averages.itertuples():
        if (row.signal, row.parameters) in scores and row.status == "ok":
            of_model = scores[row.signal, row.parameters].loc[row.model]
            assert row.value == pytest.approx(of_model.groupby("task").mean().mean())
            fewest = of_model.groupby("task").size().min()
            said = f"rows crossed with at least {fewest} networks" if fewest >= 5 else "for these networks only"
            assert said in row.reason
            compared += 1
    assert compared >= 3


def test_the_variance_between_seeds_has_the_divisor_of_a_sample(across: pd.DataFrame, scores: pd.DataFrame) -> None:
    parts = across[across.statistic == "variance_networks"].set_index(["model", "signal_a", "parameters_a"])
    assert len(parts) >= 3
    for (model, *name), row in parts.iterrows():  # type: ignore[misc]
        by_task = [variance(task) for task in scores[tuple(name)].loc[model].groupby("task").apply(list)]
        assert row.value == pytest.approx(sum(by_task) / len(by_task))


def test_better_same_and_worse_are_tails_of_the_averages_own_test(across: pd.DataFrame) -> None:
    pairs = pd.read_parquet(KEPT / "pairs.parquet")
    asked = pairs[(pairs.task == "average") & (pairs.operating_point == POINT)]
    asked = asked[asked.measure == "mean_accuracy_f1"]
    names = ["model", "signal_a", "parameters_a", "signal_b", "parameters_b"]
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


def test_the_interquartile_mean_and_the_chance_of_improvement_are_those_of_thirty_five_networks(
    results: pd.DataFrame, across: pd.DataFrame, scores: pd.DataFrame
) -> None:
    small = scores.loc["minilm-l6"]
    asked = results[(results.cache != "") & (results.measure == results.cache.map(own_measures()))]
    random = asked[(asked.signal == "random") & (asked.operating_point == POINT)].set_index("cache").value
    oracle = asked[asked.signal == "oracle"].set_index("cache").value
    caches = small.index.get_level_values("cache")
    assert len(caches) == 35
    low, high = random[caches].to_numpy(), oracle[caches].to_numpy()
    normal = {name: (small[name].to_numpy() - low) / (high - low) for name in small}
    means = across[across.statistic == "interquartile_mean"].set_index(["signal_a", "parameters_a"]).value
    assert len(means) >= 3
    for name, value in means.items():
        fourfold = np.sort(np.repeat(normal[name], 4))  # a quarter of them is a whole number
        assert value == pytest.approx(fourfold[35:-35].mean())
    chances = across[across.statistic == "improvement"]
    assert set(chances.model) == {"minilm-l6"}, "three networks a task are too few"
    tasks = small.index.get_level_values("task").to_numpy()
    for row in chances.itertuples():
        first, second = normal[row.signal_a, row.parameters_a], normal[row.signal_b, row.parameters_b]
        wins = (first > second) + 0.5 * (first == second)
        assert row.value == pytest.approx(np.mean([wins[tasks == task].mean() for task in set(tasks)]))


def test_every_scored_cache_is_held_by_a_baseline() -> None:
    held = {path.name for file in BASELINES.glob("*.csv") for path in load_suite(file.stem).caches}
    scored = {path.name for path in cache_directories() if path.name.endswith("-dev")}
    assert scored - held == set()
