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

from exitbench.benchmarks.arrays.roomy_array import empty
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.guarantees.losses import unit_means
from exitbench.benchmarks.protocols.per_layer_points import FITS
from exitbench.benchmarks.replay.exit_quotas import thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.replay.operating_points import threshold_at
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
    at: NDArray[np.float64] = empty(losses.shape[1], np.float64)
    for some in element_blocks(len(at)):
        at[some] = losses[:, some][exits[some] - 1, np.arange(some.stop - some.start)]
    return at


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
    usable = [usable_points(curve) for curve in curves]
    least = [
        curve.relative_cost_at(np.array(points[-1:], dtype=np.int64))
        for curve, points in zip(curves, usable, strict=True)
    ]
    cheapest = float(np.concatenate(least).min(initial=1.0))
    costs = np.linspace(1.0, cheapest, SHARED_GRID + 1)[1:]
    near = [nearest(curve, points, costs) for curve, points in zip(curves, usable, strict=True)]
    risks = [losses_at_points(curve, losses, points) for curve, points in zip(curves, near, strict=True)]
    path: dict[tuple[int, int], Candidate] = {}
    order = [number for number in (default, *range(len(curves))) if usable[number]]
    for step in range(SHARED_GRID):
        if order:
            number = min(order, key=lambda number: float(risks[number][step]))
            point = int(near[number][step])
            path.setdefault((number, point), shared_candidate(curves[number], number, point))
    return in_order(path.values())


def shared_candidate(curve: Curve, number: int, point: int) -> Candidate:
    """One operating point of a configuration."""
    threshold = threshold_at(curve, point)
    thresholds = np.full(curve.depth - 1, threshold)
    return Candidate(number, thresholds, float(curve.relative_cost_at(np.array(point))), threshold)


def usable_points(curve: Curve) -> range:
    """The operating points with a finite threshold at which something exits: a stretch of them, since costs fall."""
    finite = np.isfinite(curve.thresholds_at(np.array([0, curve.points - 1])))
    first = max(int(curve.first_as_cheap(np.nextafter(1.0, 0.0))), int(not finite[0]))
    return range(first, curve.points - int(not finite[1]))


def nearest(curve: Curve, points: range, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    """Of a stretch of operating points those nearest to some costs, the safest of several; none without any point."""
    if not points:
        return np.zeros(0, dtype=np.int64)
    after = np.clip(curve.first_as_cheap(costs), points[0], points[-1])
    before = np.maximum(after - 1, points[0])
    dearer, cheaper = curve.relative_cost_at(before), curve.relative_cost_at(after)
    safest = np.where(np.abs(dearer - costs) <= np.abs(cheaper - costs), dearer, cheaper)
    return np.maximum(curve.first_as_cheap(safest), points[0])


def losses_at_points(curve: Curve, losses: NDArray[np.float64], points: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum of ``losses`` [layers, samples] at some operating ``points``, which never fall, in their shape."""
    events = curve.events

    def changes(some: slice) -> NDArray[np.float64]:
        earlier, later, samples = events.earlier[some] - 1, events.later[some] - 1, events.samples[some]
        return np.asarray(losses[earlier, samples] - losses[later, samples])

    return np.asarray(events.sums_after(events.ends[points], 0.0, changes) + losses[-1].sum())


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
