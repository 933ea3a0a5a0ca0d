"""Statistics over networks and tasks against scipy, brute force and simulated truths."""

import itertools
import math

import numpy as np
import pytest
from scipy.stats import norm, trim_mean
from scipy.stats import t as student

from exitbench.benchmarks.statistics.networks_and_tasks import (
    improvement,
    interquartile_mean,
    iqm_estimate,
    practical_probabilities,
    profile,
    stratified_draws,
    variance_parts,
)

RNG = np.random.default_rng(3)
TASKS = [RNG.normal(task, 1.0, 5) for task in range(3)]


def test_the_interquartile_mean_is_the_trimmed_mean_where_quarters_are_whole() -> None:
    for runs in (4, 8, 20):
        scores = RNG.normal(size=runs)
        assert interquartile_mean(scores) == pytest.approx(trim_mean(scores, 0.25))
    # Fifteen runs: a quarter is 3.75, so the fourth and the twelfth count by a quarter each.
    scores = np.arange(15.0) ** 2
    weights = [0, 0, 0, 0.25, *[1] * 7, 0.25, 0, 0, 0]
    assert interquartile_mean(scores) == pytest.approx(np.average(scores, weights=weights))


def test_draws_keep_tasks_apart_and_intervals_hold_the_value() -> None:
    draws = stratified_draws([5, 5, 5], 400, seed=1)
    assert [drawn.shape for drawn in draws] == [(400, 5)] * 3
    estimate = iqm_estimate(TASKS, draws)
    assert estimate.low < estimate.value < estimate.high
    again = [
        float(interquartile_mean(np.concatenate([task[drawn[row]] for task, drawn in zip(TASKS, draws, strict=True)])))
        for row in range(400)
    ]
    assert (estimate.low, estimate.high) == pytest.approx(np.quantile(again, [0.025, 0.975]))


def test_the_profile_is_the_share_of_runs_above_each_level() -> None:
    draws = stratified_draws([5, 5, 5], 50, seed=1)
    levels = np.array([-9.0, 0.5, 1.5, 9.0])
    shares = profile(TASKS, levels, draws)
    runs = np.concatenate(TASKS)
    assert [share.value for share in shares] == pytest.approx([(runs > level).mean() for level in levels])
    assert (shares[0].low, shares[0].high, shares[-1].high) == (1.0, 1.0, 0.0)


def test_the_probability_of_improvement_counts_networks_pair_by_pair() -> None:
    other = [task + RNG.normal(size=5).round(0) for task in TASKS]
    draws = stratified_draws([5, 5, 5], 50, seed=1)
    wins = sum(
        1.0 if a > b else 0.5 if a == b else 0.0
        for x, y in zip(TASKS, other, strict=True)
        for a, b in zip(x, y, strict=True)
    )
    assert improvement(TASKS, other, draws).value == pytest.approx(wins / 15)
    assert improvement(TASKS, TASKS, draws).value == 0.5


@pytest.mark.parametrize(("difference", "degrees"), list(itertools.product([-0.9, 0.0, 0.4], [4.2, math.inf])))
def test_practical_probabilities_are_areas_of_the_posterior(difference: float, degrees: float) -> None:
    law = norm(difference, 0.6) if math.isinf(degrees) else student(degrees, difference, 0.6)
    quantile = float(norm.ppf(0.975) if math.isinf(degrees) else student.ppf(0.975, degrees))
    shown = practical_probabilities(difference, 0.6, quantile, margin=0.5)
    expected = (law.sf(0.5), law.cdf(0.5) - law.cdf(-0.5), law.cdf(-0.5))
    assert (shown.better, shown.same, shown.worse) == pytest.approx(expected, abs=1e-6)
    assert practical_probabilities(0.2, 0.0, quantile).same == 1.0
    for edge in (-0.5, 0.5):  # as large as the margin is still the same
        shown = practical_probabilities(edge, 0.0, quantile, margin=0.5)
        assert (shown.better, shown.same, shown.worse) == (0.0, 1.0, 0.0)


def test_variance_parts_find_the_variances_that_made_the_data() -> None:
    """Many small data sets whose rows, networks and tasks have variances 0.25, 1 and 4."""
    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(600):
        tasks = []
        for _ in range(6):
            rows, task = rng.normal(0, 0.5), rng.normal(0, 2.0)
            tasks.append(task + rows + rng.normal(0, 1.0, 5))
        parts = variance_parts(tasks, [0.5] * 6)
        estimates.append((parts.rows, parts.networks, parts.tasks))
    assert np.mean(estimates, axis=0) == pytest.approx([0.25, 1.0, 4.0], rel=0.08)
    alone = variance_parts([np.array([1.0]), np.array([3.0])], [0.5, 0.5])
    assert math.isnan(alone.networks) and alone.tasks == pytest.approx(2.0 - 0.25)
    mixed = variance_parts([np.array([1.0, 3.0]), np.array([5.0])], [0.5, 0.5])
    assert mixed.networks == 2.0, "a task with a single network says nothing of networks"
