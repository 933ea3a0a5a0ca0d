"""Candidate policies in one fixed order, from the safest to the riskiest, made from the choosing rows only.

A candidate is a configuration of a signal with a threshold for every layer. However many parameters and thresholds
there are, they are reduced to one path here: at each of a row of falling costs the configuration that loses least on
the choosing rows, with the threshold that costs so much there. So the certifying rows test one sequence and nothing is
paid for what was tried.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange
from exitbench.benchmarks.guarantees.losses import unit_means
from exitbench.benchmarks.protocols.per_layer_points import FITS
from exitbench.benchmarks.replay.exit_quotas import thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.scoring.signal_scores import SignalScores

SHARED_GRID = 100
"""Costs along a path of shared thresholds."""

PER_LAYER_GRID = 25
"""Costs along a path of per-layer thresholds, each of which is a search."""


@dataclass(frozen=True, eq=False)
class Candidate:
    """The position of a configuration, its thresholds [layers - 1], and its relative cost on the choosing rows.

    ``shared`` is the one threshold of all layers, ``None`` where each has its own. A layer with an infinite threshold
    lets nothing exit.
    """

    configuration: int
    thresholds: NDArray[np.float64]
    cost: float
    shared: float | None = None

    def exits(self, scores: Sequence[SignalScores]) -> NDArray[np.int64]:
        """The layer at which each sample exits, [samples]; ``scores`` are those of every configuration."""
        return per_layer_exits(scores[self.configuration], self.thresholds)


def losses_at(losses: NDArray[np.float64], exits: NDArray[np.int64]) -> NDArray[np.float64]:
    """The losses [samples] of exiting at the layers ``exits`` (from 1); ``losses`` [layers, samples]."""
    return losses[exits - 1, arange(losses.shape[1])]


def path_losses(
    path: Sequence[Candidate],
    scores: Sequence[SignalScores],
    losses: NDArray[np.float64],
    groups: NDArray[np.int64] | None,
    order: NDArray[np.intp],
) -> Iterator[NDArray[np.float64]]:
    """The losses [units] of one candidate after another, in the testing ``order`` of the units."""
    for candidate in path:
        yield unit_means(losses_at(losses, candidate.exits(scores)), groups)[order]


def shared_path(curves: Sequence[Curve], losses: NDArray[np.float64], default: int = 0) -> list[Candidate]:
    """Candidates with one threshold for all layers, from the curves of every configuration on the choosing rows.

    ``losses`` [layers, samples] are theirs. Ties go to the configuration at ``default``.
    """
    cheapest = min(float(curve.relative_cost[usable_points(curve)].min(initial=1.0)) for curve in curves)
    risks = [running_losses(curve, losses) for curve in curves]
    usable = [usable_points(curve) for curve in curves]
    path: dict[tuple[int, int], Candidate] = {}
    order = [default, *(number for number in range(len(curves)) if number != default)]
    for cost in np.linspace(1.0, cheapest, SHARED_GRID + 1)[1:]:
        near = {number: nearest(curves[number].relative_cost, usable[number], cost) for number in order}
        points = [(number, point) for number, point in near.items() if point is not None]
        if points:
            number, point = min(points, key=lambda item: float(risks[item[0]][item[1]]))
            path.setdefault((number, point), shared_candidate(curves[number], number, point))
    return in_order(path.values())


def shared_candidate(curve: Curve, number: int, point: int) -> Candidate:
    """One operating point of a configuration."""
    threshold = float(curve.thresholds[point])
    thresholds = np.full(curve.depth - 1, threshold)
    return Candidate(number, thresholds, float(curve.relative_cost[point]), threshold)


def usable_points(curve: Curve) -> NDArray[np.intp]:
    """The operating points with a finite threshold at which something exits."""
    return np.flatnonzero(np.isfinite(curve.thresholds) & (curve.relative_cost < 1.0))


def nearest(costs: NDArray[np.float64], points: NDArray[np.intp], cost: float) -> int | None:
    """Of some operating points the one nearest to a cost, the safest of several; ``None`` where there is none."""
    return int(points[np.argmin(np.abs(costs[points] - cost))]) if len(points) else None


def running_losses(curve: Curve, losses: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of ``losses`` [layers, samples] at every operating point, [points]."""
    events = curve.events
    change = losses[events.earlier - 1, events.samples] - losses[events.later - 1, events.samples]
    return np.asanyarray(np.concatenate([[0.0], np.cumsum(change)])[events.ends] + losses[-1].sum())


def per_layer_path(
    curves: Sequence[Curve], losses: NDArray[np.float64], schedule: Schedule, default: int = 0
) -> list[Candidate]:
    """Candidates with thresholds of each layer's own, from exit quotas or a greedy search on the choosing rows.

    At each cost with the configuration that a shared threshold would have there.
    """
    shared = shared_path(curves, losses, default)
    if schedule == "shared" or not shared:
        return shared
    path = []
    for step in np.unique(np.linspace(0, len(shared) - 1, PER_LAYER_GRID).round().astype(int)):
        curve, number = curves[shared[step].configuration], shared[step].configuration
        exits = FITS[schedule](curve, 1 / shared[step].cost, "accuracy")
        cost = float(curve.outcomes.paid(exits).mean() / curve.outcomes.full_cost)
        if cost < 1.0:
            path.append(Candidate(number, storable(thresholds_of_exits(curve.scores, exits), curve.scores), cost))
    return in_order(path)


def storable(thresholds: NDArray[np.float64], scores: SignalScores) -> NDArray[np.float64]:
    """The same thresholds, with a number that everything passes where infinity stood: JSON holds none."""
    everything = -scores.sign * np.inf
    return np.where(thresholds == everything, -scores.sign * np.finfo(np.float64).max, thresholds)


def in_order(path: Iterable[Candidate]) -> list[Candidate]:
    """From the most expensive to the cheapest on the choosing rows."""
    return sorted(path, key=lambda candidate: -candidate.cost)
