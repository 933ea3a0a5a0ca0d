"""Means over tasks: scipy's intervals, coverage in simulations with known parts of variance, and copies."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy import stats

from exitbench.reports.findings.evidence.estimates import (
    CacheValue,
    holm_adjusted,
    mean_over_task_pairs,
    mean_over_tasks,
)

DRAWS = 2_000


def test_from_three_tasks_on_the_interval_is_scipys_over_task_means() -> None:
    values = [
        *(CacheValue("a", "small", number, 9.0) for number in (1.0, 2.0, 6.0)),
        CacheValue("a", "large", 5.0, 9.0),
        CacheValue("b", "small", -1.0),
        CacheValue("c", "large", 2.5, 9.0),
    ]
    estimate = mean_over_tasks(values)
    means = [(3.0 + 5.0) / 2, -1.0, 2.5]
    expected = stats.ttest_1samp(means, 0.0)
    low, high = expected.confidence_interval(0.95)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx((np.mean(means), low, high))
    assert estimate.p_value == pytest.approx(expected.pvalue)
    assert (estimate.tasks, estimate.caches, estimate.about) == (3, 6, "3 tasks")


def test_copies_of_a_network_change_nothing() -> None:
    single = [CacheValue("a", "m", 2.0, 1.5)]
    for copies in (2, 4, 48):
        estimate, alone = mean_over_tasks(single * copies), mean_over_tasks(single)
        assert (estimate.low, estimate.high) == pytest.approx((alone.low, alone.high))
    tasks = [CacheValue(task, "m", value) for task, value in zip("abcd", (1.0, 3.0, 2.0, 7.0), strict=True)]
    many = [value for value in tasks for _ in range(1 + 6 * (value.task == "d"))]
    assert mean_over_tasks(many).text(6) == mean_over_tasks(tasks).text(6)


def test_below_five_networks_a_mean_is_about_these_networks_with_the_error_of_the_rows() -> None:
    four = mean_over_tasks([CacheValue("a", "m", value, 1.0) for value in (0.0, 10.0, 20.0, 30.0)])
    assert four.about == "these 4 networks"
    assert four.high - four.value == pytest.approx(stats.norm.ppf(0.975))
    five = mean_over_tasks([CacheValue("a", "m", value, 1.0) for value in (0.0, 10.0, 20.0, 30.0, 40.0)])
    assert five.about == "rows and 5 networks"
    rows, networks = 1.0, np.var([0.0, 10.0, 20.0, 30.0, 40.0], ddof=1) / 5
    degrees = (rows + networks) ** 2 / (networks**2 / 4)
    assert five.high - five.value == pytest.approx(stats.t.ppf(0.975, degrees) * math.sqrt(rows + networks))
    beside = [*(CacheValue("a", "m", value, 1.0) for value in range(5)), CacheValue("a", "other", 3.0, 1.0)]
    assert mean_over_tasks(beside).about == "these 6 networks", "one model has a single network"


def test_two_tasks_have_independent_rows() -> None:
    estimate = mean_over_tasks([CacheValue("a", "m", 1.0, 3.0), CacheValue("b", "m", 2.0, 4.0)])
    assert estimate.high - estimate.value == pytest.approx(stats.norm.ppf(0.975) * 2.5)


def test_without_a_row_error_there_is_no_interval() -> None:
    estimate = mean_over_tasks([CacheValue("a", "m", 1.0), CacheValue("b", "m", 2.0)])
    assert not estimate.has_interval
    assert estimate.text() == "+1.5"
    assert math.isnan(mean_over_tasks([]).value)


def simulated(rng: np.random.Generator, networks: dict[tuple[str, str], int]) -> list[CacheValue]:
    """True mean 0: a part of each task, of each model on a task, of each network, and of the rows that all share."""
    tasks = {task: rng.normal(0, 1.0) + rng.normal(0, 0.5) for task, _ in networks}
    models = {cell: rng.normal(0, 0.4) for cell in networks}
    return [
        CacheValue(task, model, tasks[task] + models[task, model] + rng.normal(0, 0.7), 0.5)
        for (task, model), count in networks.items()
        for _ in range(count)
    ]


UNBALANCED = {
    **{(task, "small"): 5 for task in "abcdefg"},
    **{(task, "large"): 3 for task in "abc"},
    ("h", "large"): 1,
}
"""Two models: five networks on seven tasks, three on three of them, one on another."""


@pytest.mark.long
def test_intervals_over_tasks_cover_with_unequal_seeds_and_tasks() -> None:
    rng = np.random.default_rng(1)
    inside = 0
    for _ in range(DRAWS):
        estimate = mean_over_tasks(simulated(rng, UNBALANCED))
        inside += estimate.low <= 0.0 <= estimate.high
    assert inside / DRAWS == pytest.approx(0.95, abs=0.02)


@pytest.mark.long
def test_intervals_of_one_task_cover_new_networks_on_new_rows() -> None:
    rng = np.random.default_rng(2)
    inside = 0
    for _ in range(DRAWS):
        rows = rng.normal(0, 0.5)
        values = [CacheValue("a", "m", rows + rng.normal(0, 0.7), 0.5) for _ in range(6)]
        estimate = mean_over_tasks(values)
        inside += estimate.low <= 0.0 <= estimate.high
    assert 0.93 <= inside / DRAWS <= 0.98


def test_pairs_of_tasks_have_the_jackknife_over_tasks() -> None:
    tasks = "abcde"
    values = {pair: float(number) for number, pair in enumerate(itertools.combinations(tasks, 2))}
    pairs = [(*pair, value + shift) for pair, value in values.items() for shift in (-1.0, 1.0)]
    estimate = mean_over_task_pairs(pairs)
    left_out = [np.mean([value for pair, value in values.items() if task not in pair]) for task in tasks]
    error = math.sqrt(4 / 5 * sum((each - np.mean(left_out)) ** 2 for each in left_out))
    assert estimate.value == pytest.approx(4.5)
    assert estimate.high - estimate.value == pytest.approx(stats.t.ppf(0.975, 4) * error)
    assert not mean_over_task_pairs(pairs[:2]).has_interval


@pytest.mark.long
def test_intervals_of_pairs_of_tasks_cover() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(DRAWS):
        position = rng.normal(0, 1, 8)
        pairs = [(str(a), str(b), position[a] + position[b]) for a, b in itertools.combinations(range(8), 2)]
        estimate = mean_over_task_pairs(pairs)
        inside += estimate.low <= 0.0 <= estimate.high
    assert inside / DRAWS == pytest.approx(0.95, abs=0.02)


def test_shown_is_what_holms_method_leaves() -> None:
    estimates = [mean_over_tasks([CacheValue("a", "m", value, 1.0)]) for value in (2.2, 2.5, -3.0, 0.1, 0.1)]
    assert [each.side for each in holm_adjusted(estimates[:3])] == [1, 1, -1]
    assert [each.side for each in holm_adjusted(estimates)] == [0, 1, -1, 0, 0]
    assert [each.side for each in estimates] == [0] * 5, "before it is adjusted nothing is shown"
