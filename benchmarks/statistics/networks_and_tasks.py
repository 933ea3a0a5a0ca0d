"""What several networks (seeds) on several tasks say about signals: interquartile mean, profile, improvement, variance.

Scores are normalised on every cache: 0 is exiting at random at the same speed-up, 1 the oracle. Intervals are the
percentiles of a stratified bootstrap: networks are drawn anew within each task, tasks stay as they are (Agarwal et al.,
*Deep Reinforcement Learning at the Edge of the Statistical Precipice*, 2021). Signals are read on the same networks, so
all of them share the draws, and one is held against another network by network.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, stdtr, stdtridf

from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE
from exitbench.benchmarks.statistics.intervals import percentile_interval

FEWEST_NETWORKS, FEWEST_TASKS = 5, 3
"""With fewer networks for each task, or fewer tasks, a bootstrap over networks has nothing to draw from."""

MARGIN = 0.5
"""Points within which two signals are practically the same."""

Array = NDArray[np.float64]


def interquartile_mean(scores: Array) -> Array:
    """The mean of the middle half of ``scores`` [..., runs], each [...]; a run at the edge counts by its share.

    >>> float(interquartile_mean(np.array([0.0, 1.0, 2.0, 30.0])))
    1.5
    """
    runs = scores.shape[-1]
    cut = runs / 4
    position = np.arange(runs)
    weight = np.clip(np.minimum(position + 1 - cut, runs - cut - position), 0.0, 1.0)
    return np.asarray(np.sort(scores, axis=-1) @ (weight / weight.sum()))


def stratified_draws(networks: Sequence[int], resamples: int, seed: int) -> list[NDArray[np.int64]]:
    """For each task which of its networks are drawn, [resamples, networks of the task]."""
    rng = np.random.default_rng([seed, 0x6E657473])
    return [rng.integers(0, count, (resamples, count)) for count in networks]


def redrawn(tasks: Sequence[Array], draws: Sequence[NDArray[np.int64]]) -> Array:
    """The runs of all tasks in every resample, [resamples, runs]; ``tasks`` are the scores of each, [networks]."""
    return np.concatenate([scores[drawn] for scores, drawn in zip(tasks, draws, strict=True)], axis=1)


@dataclass(frozen=True)
class WithInterval:
    """A value with its 95% interval."""

    value: float
    low: float
    high: float


def with_interval(value: float, resampled: Array) -> WithInterval:
    """The value with the percentiles of its resamples, widened to hold it."""
    low, high = (float(end) for end in percentile_interval(resampled, 0.95))
    return WithInterval(value, min(low, value), max(high, value))


def iqm_estimate(tasks: Sequence[Array], draws: Sequence[NDArray[np.int64]]) -> WithInterval:
    """The interquartile mean over all runs of all tasks."""
    return with_interval(float(interquartile_mean(np.concatenate(tasks))), interquartile_mean(redrawn(tasks, draws)))


def profile(tasks: Sequence[Array], levels: Array, draws: Sequence[NDArray[np.int64]]) -> list[WithInterval]:
    """The share of runs that score more than each of the ``levels``: every task counts alike."""
    shares = np.stack([[(scores > level).mean() for scores in tasks] for level in levels]).mean(axis=1)
    resampled = np.stack(
        [
            np.mean([(scores > level)[drawn].mean(axis=1) for scores, drawn in zip(tasks, draws, strict=True)], axis=0)
            for level in levels
        ]
    )
    return [with_interval(float(share), row) for share, row in zip(shares, resampled, strict=True)]


def improvement(first: Sequence[Array], second: Sequence[Array], draws: Sequence[NDArray[np.int64]]) -> WithInterval:
    """The chance that the first signal scores more than the second on the same network, ties one half.

    The mean over tasks of the share of their networks.
    """
    wins = [(a > b) + 0.5 * (a == b) for a, b in zip(first, second, strict=True)]
    value = float(np.mean([task.mean() for task in wins]))
    resampled = np.mean([task[drawn].mean(axis=1) for task, drawn in zip(wins, draws, strict=True)], axis=0)
    return with_interval(value, np.asarray(resampled))


@dataclass(frozen=True)
class PracticalProbabilities:
    """The posterior probabilities that a difference is better, practically the same, or worse."""

    better: float
    same: float
    worse: float


def practical_probabilities(
    difference: float, std_err: float, quantile: float, margin: float = MARGIN
) -> PracticalProbabilities:
    """The posterior of a true mean difference with a flat prior, beyond and within ``margin``.

    It is Student's t (the normal law for an infinite number of degrees of freedom) around the difference, with the
    standard error and the degrees of freedom of the test of the average: the Bayesian correlated t-test, with the
    correlation of caches that share rows in the standard error. ``quantile`` is that of the test's 95% interval.
    """
    if not std_err > 0:
        inside = abs(difference) <= margin
        return PracticalProbabilities(float(difference > margin), float(inside), float(difference < -margin))
    degrees = math.inf if quantile <= NORMAL_QUANTILE * (1 + 1e-9) else float(stdtridf(0.975, quantile))

    def below(point: float) -> float:
        scaled = (point - difference) / std_err
        return float(ndtr(scaled) if math.isinf(degrees) else stdtr(degrees, scaled))

    worse, better = below(-margin), 1.0 - below(margin)
    return PracticalProbabilities(better, max(1.0 - worse - better, 0.0), worse)


@dataclass(frozen=True)
class VarianceParts:
    """The variance of one network's value on one task, from its rows, its training and the task, in squared points.

    ``networks`` is NaN where a task has one network only.
    """

    rows: float
    networks: float
    tasks: float


def variance_parts(tasks: Sequence[Array], row_errors: Sequence[float]) -> VarianceParts:
    """Method of moments: ``tasks`` are the values of each task's networks, ``row_errors`` the standard error of each
    task's mean that comes from its rows.

    Rows: the mean square of these errors. Networks: the mean variance within tasks (divisor k - 1), which holds what
    rows and networks have together. Tasks: the variance between task means less what the other two leave in it.
    """
    rows = float(np.mean(np.square(row_errors)))
    several = [scores for scores in tasks if len(scores) > 1]
    networks = float(np.mean([scores.var(ddof=1) for scores in several])) if several else math.nan
    left = rows + (0.0 if math.isnan(networks) else networks * float(np.mean([1 / len(scores) for scores in tasks])))
    between = float(np.var([scores.mean() for scores in tasks], ddof=1)) if len(tasks) > 1 else math.nan
    return VarianceParts(rows, networks, max(between - left, 0.0))
