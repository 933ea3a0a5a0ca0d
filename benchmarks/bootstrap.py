"""Everything read off a trade-off curve, read again on a thousand resampled curves.

The operating points of a resample are those of the original curve (points that differ only by samples that were not
drawn coincide). Whatever was chosen is chosen anew in each resample: the point nearest to a speed-up, the last point
within a loss. The area follows the resampled curve from node to node, which is every point up to :data:`NODES` of them
and otherwise a polyline through about that many of its points; all other readings are exact.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.curve import Curve
from benchmarks.operating import ROUNDING
from benchmarks.rates import Decisions, RateTally
from benchmarks.resampled_rates import resampled_rates
from benchmarks.resamples import Resamples, RunningSums, node_points
from benchmarks.task_score import Measure, Outcomes, Tally
from exitbench.errors import InputError

SCAN = 512
"""How many events a scan holds for all resamples at once."""


class ResampledCurve:
    """A trade-off curve under all resamples; results are [resamples]."""

    def __init__(self, curve: Curve, resamples: Resamples) -> None:
        if len(resamples.weights) != curve.outcomes.samples:
            raise InputError(
                f"expected weights for {curve.outcomes.samples} samples, found {len(resamples.weights)} rows of them"
            )
        self.curve = curve
        self.resamples = resamples
        self._nodes = node_points(curve.events.ends)
        self._sums: dict[str, RunningSums] = {}
        self._lowest: dict[Measure, NDArray[np.float64]] = {}

    @cached_property
    def _weights(self) -> NDArray[Any]:
        return self.resamples.exact(self.curve.depth)

    @cached_property
    def _totals(self) -> dict[str, Any]:
        """What no exit changes: the draws, and the draws of class 1."""
        positive = self.curve.outcomes.positive
        positives = None if positive is None else self.resamples.sums(positive)
        return {"samples": self.resamples.totals.astype(np.float64), "positives": positives}

    @property
    def _names(self) -> list[str]:
        return ["layers", *self.curve.outcomes.counted]

    def _sum(self, name: str) -> RunningSums:
        if name not in self._sums:
            events, outcomes = self.curve.events, self.curve.outcomes
            if name == "layers":
                change: NDArray[Any] = events.earlier - events.later
                start = self.curve.depth * self._totals["samples"]
            else:
                truth = outcomes.counted[name].astype(np.int8)
                change = truth[events.earlier - 1, events.samples] - truth[events.later - 1, events.samples]
                start = self.resamples.sums(truth[-1])
            self._sums[name] = RunningSums(events.samples, change, events.ends, self._nodes, start, self._weights)
        return self._sums[name]

    def _tally(self, sums: dict[str, Any]) -> Tally:
        return Tally(self.curve.depth, **self._totals, **sums)

    @cached_property
    def final(self) -> Tally:
        """The network without early exits."""
        return self._tally({name: self._sum(name).start for name in self._names})

    def at_points(self, points: ArrayLike) -> Tally:
        """The tally at one operating point, or at each resample's own, [resamples]."""
        asked = np.broadcast_to(np.asarray(points, dtype=np.int64), (self.resamples.count,))
        return self._tally({name: self._sum(name).at_points(asked) for name in self._names})

    def at_thresholds(self, thresholds: ArrayLike) -> Tally:
        """The tally at a threshold, or at each resample's own, [resamples]."""
        return self.at_points(self.curve.points_at(thresholds))

    def nearest(self, speed_up: float) -> NDArray[np.int64]:
        """The operating point with the nearest speed-up in each resample; the faster of two equally near."""
        layers, draws = self._sum("layers"), self._totals["samples"]
        right = np.minimum(self._first_at_most(self.curve.depth * draws / speed_up), self.curve.points - 1)
        left = np.maximum(right - 1, 0)
        sums = [layers.at_points(left), layers.at_points(right)]
        slower, faster = (self.curve.depth * draws / found for found in sums)
        chosen = np.where(speed_up - slower < faster - speed_up, *sums)
        return self._first_at_most(chosen)

    def matched(self, speed_up: float) -> Tally:
        """The tally at the point nearest to a speed-up, found anew in each resample."""
        return self.at_points(self.nearest(speed_up))

    def _first_at_most(self, wanted: NDArray[np.float64]) -> NDArray[np.int64]:
        """The first point whose sum of exit layers is at most ``wanted``; the number of points where none is."""
        layers, ends = self._sum("layers"), self.curve.events.ends
        node = (layers.at_nodes > wanted).sum(axis=0)
        before = np.maximum(node - 1, 0)
        stop = self._nodes[np.minimum(node, len(self._nodes) - 1)]
        first = ends[self._nodes[before]]
        # Where no point lies between two nodes there is nothing to look for, however many events leap at once.
        last = np.where(stop - self._nodes[before] > 1, ends[stop], first)
        _, added = layers.stretch(first, last)
        reached = layers.at_nodes[before, np.arange(len(wanted))][:, None] + np.cumsum(added, axis=1)
        count = (reached > wanted[:, None]).sum(axis=1)
        inside = np.searchsorted(ends, first + count + 1)
        found = np.where(last > first, np.minimum(inside, stop), stop)
        return np.where(node == 0, 0, np.where(node == len(self._nodes), self.curve.points, found))

    @property
    def cost_range(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The smallest and the largest relative cost of each resampled curve."""
        cost = self.at_nodes.relative_cost
        return cost[-1], cost[0]

    @cached_property
    def at_nodes(self) -> Tally:
        """The tally at the nodes, [nodes, resamples]."""
        return self._tally({name: self._sum(name).at_nodes for name in self._names})

    def area(self, measure: Measure, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
        """The area under task score against relative cost; a curve that does not reach an end is continued level."""
        lowest, highest = np.asarray(low, dtype=np.float64), np.asarray(high, dtype=np.float64)
        cost, score = self.at_nodes.relative_cost, self.at_nodes.score(measure)
        width = cost[:-1] - cost[1:]
        slope = np.divide(score[:-1] - score[1:], width, out=np.zeros_like(width), where=width > 0)
        clipped = np.clip(cost, lowest, highest)
        left, right = clipped[1:], clipped[:-1]
        middle = score[1:] + slope * ((left + right) / 2 - cost[1:])
        below = np.maximum(np.minimum(cost[-1], highest) - lowest, 0) * score[-1]
        above = np.maximum(highest - np.maximum(cost[0], lowest), 0) * score[0]
        return np.asarray(((right - left) * middle).sum(axis=0) + below + above)

    def within_loss(self, loss: float, measure: Measure) -> tuple[NDArray[np.int64], Tally]:
        """Coming from full depth, the last point before the score first falls more than ``loss`` points; and its tally.

        Point -1, with NaN in the tally, where the resample has no such point.
        """
        floor = self.final.score(measure) - loss - ROUNDING
        fallen = self._block_minima(measure) < floor
        block = np.where(fallen.any(axis=0), fallen.argmax(axis=0), len(self._nodes))
        point = self._first_below(floor, np.minimum(block, len(self._nodes) - 1), measure)
        point = np.where(block == len(self._nodes), self.curve.points, point) - 1
        tally = self.at_points(np.maximum(point, 0))
        gone = np.where(point < 0, np.nan, 1.0)
        sums = {name: getattr(tally, name) * gone for name in self._names}
        return point, self._tally(sums)

    def _first_below(
        self, floor: NDArray[np.float64], block: NDArray[np.int64], measure: Measure
    ) -> NDArray[np.int64]:
        """The first point of each resample's block (the points after the node before, up to its node) below the floor."""
        ends, columns = self.curve.events.ends, np.arange(len(floor))
        before = self._nodes[np.maximum(block - 1, 0)]
        stop = self._nodes[block]
        first = ends[before]
        last = np.where(stop - before > 1, ends[stop], first)
        sums: dict[str, Any] = {}
        for name in self.curve.outcomes.counted:
            running = self._sum(name)
            _, added = running.stretch(first, last)
            start = running.at_nodes[np.maximum(block - 1, 0), columns]
            sums[name] = start[:, None] + np.cumsum(added, axis=1, dtype=np.float64)
        seen = first[:, None] + np.arange(1, next(iter(sums.values())).shape[1] + 1)
        point = np.searchsorted(ends, seen)
        at_a_point = (ends[np.minimum(point, len(ends) - 1)] == seen) & (seen <= last[:, None])
        totals = {name: None if sum_ is None else sum_[:, None] for name, sum_ in self._totals.items()}
        score = Tally(self.curve.depth, layers=np.asarray(1), **totals, **sums).score(measure)
        fallen = at_a_point & (score < floor[:, None])
        if not fallen.shape[1]:
            return stop
        return np.where(fallen.any(axis=1), point[columns, fallen.argmax(axis=1)], stop)

    def _block_minima(self, measure: Measure) -> NDArray[np.float64]:
        """The lowest score among the points after the node before and up to each node, [nodes, resamples]."""
        if measure not in self._lowest:
            lowest = self.at_nodes.score(measure)
            if len(self._nodes) < self.curve.points:
                self._scan_blocks(measure, lowest)
            self._lowest[measure] = lowest
        return self._lowest[measure]

    def _scan_blocks(self, measure: Measure, lowest: NDArray[np.float64]) -> None:
        """Lower ``lowest`` to what happens between the nodes: only events that change an answer's worth matter."""
        events = self.curve.events
        parts = {name: self._sum(name) for name in self.curve.outcomes.counted}
        moving = np.flatnonzero(np.any([part.change != 0 for part in parts.values()], axis=0))
        point = np.searchsorted(events.ends, moving + 1)
        moving, point = moving[point < self.curve.points], point[point < self.curve.points]
        settled = np.append(point[1:] != point[:-1], True)  # the last change of its point: here the point's score is read
        block = np.searchsorted(self._nodes, point)
        sums = {name: part.start.astype(self._weights.dtype) for name, part in parts.items()}
        for start in range(0, len(moving), SCAN):
            now = slice(start, start + SCAN)
            drawn = self._weights[events.samples[moving[now]]]
            running: dict[str, Any] = {}
            for name, part in parts.items():
                change = part.change[moving[now], None].astype(drawn.dtype)
                running[name] = np.cumsum(change * drawn, axis=0) + sums[name]
                sums[name] = running[name][-1]
            read = np.flatnonzero(settled[now])
            if not len(read):
                continue
            at_points = {name: found[read] for name, found in running.items()}
            score = Tally(self.curve.depth, layers=np.asarray(1), **self._totals, **at_points).score(measure)
            blocks = block[now][read]
            starts = np.flatnonzero(np.append(True, blocks[1:] != blocks[:-1]))
            here = blocks[starts]
            lowest[here] = np.minimum(lowest[here], np.minimum.reduceat(score, starts, axis=0))

    def rates(self, thresholds: ArrayLike, decisions: Decisions = "all") -> RateTally:
        """The decisions at a threshold, or at each resample's own, by layer, [layers - 1, resamples]."""
        return resampled_rates(self.curve.scores, self.curve.outcomes, self.resamples, thresholds, decisions)


def resampled_tally(exits: NDArray[np.int64], outcomes: Outcomes, resamples: Resamples) -> Tally:
    """The tally, [resamples], when the exit of each sample, ``exits`` [samples], stands fixed."""
    samples = np.arange(outcomes.samples)
    worth = [exits, *(truth[exits - 1, samples].astype(np.int64) for truth in outcomes.counted.values())]
    layers, *sums = resamples.sums(np.stack(worth))
    return Tally(
        outcomes.depth,
        resamples.totals.astype(np.float64),
        layers,
        positives=None if outcomes.positive is None else resamples.sums(outcomes.positive),
        **dict(zip(outcomes.counted, sums, strict=True)),
    )
