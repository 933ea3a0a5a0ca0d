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

SCAN = 256
"""How many events, or resamples, are held at once: little enough to stay near the processor."""


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
        layers = self._sum("layers").at_nodes
        whole = self.curve.depth * self._totals["samples"]
        return layers[-1] / whole, layers[0] / whole

    def _at_nodes(self, columns: slice) -> Tally:
        """The tally of some resamples at the nodes, [nodes, resamples]."""
        sums = {name: self._sum(name).at_nodes[:, columns] for name in self._names}
        totals: dict[str, Any] = {
            name: None if total is None else total[columns] for name, total in self._totals.items()
        }
        return Tally(self.curve.depth, **totals, **sums)

    def area(self, measure: Measure, low: ArrayLike, high: ArrayLike) -> NDArray[np.float64]:
        """The area under task score against relative cost; a curve that does not reach an end is continued level."""
        count = self.resamples.count
        lowest, highest = (np.broadcast_to(np.asarray(end, dtype=np.float64), (count,)) for end in (low, high))
        parts = []
        for start in range(0, count, SCAN):
            columns = slice(start, start + SCAN)
            tally = self._at_nodes(columns)
            parts.append(_areas(tally.relative_cost, tally.score(measure), lowest[columns], highest[columns]))
        return np.concatenate(parts)

    def within_loss(self, loss: float, measure: Measure) -> tuple[NDArray[np.int64], Tally]:
        """Coming from full depth, the last point before the score first falls more than ``loss`` points; and its tally.

        Point -1, with NaN in the tally, where the resample has no such point.
        """
        floor = self.final.score(measure) - loss - ROUNDING
        block = self._first_block_below(floor, measure)
        point = self._first_below(floor, np.minimum(block, len(self._nodes) - 1), measure)
        point = np.where(block == len(self._nodes), self.curve.points, point) - 1
        tally = self.at_points(np.maximum(point, 0))
        gone = np.where(point < 0, np.nan, 1.0)
        sums = {name: getattr(tally, name) * gone for name in self._names}
        return point, self._tally(sums)

    def _first_below(self, floor: NDArray[np.float64], block: NDArray[np.int64], measure: Measure) -> NDArray[np.int64]:
        """The first point below the floor in each resample's block: the points after the node before, up to its own."""
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
        totals: dict[str, Any] = {name: None if sum_ is None else sum_[:, None] for name, sum_ in self._totals.items()}
        score = Tally(self.curve.depth, layers=np.asarray(1), **totals, **sums).score(measure)
        fallen = at_a_point & (score < floor[:, None])
        if not fallen.shape[1]:
            return stop
        return np.where(fallen.any(axis=1), point[columns, fallen.argmax(axis=1)], stop)

    def _first_block_below(self, floor: NDArray[np.float64], measure: Measure) -> NDArray[np.int64]:
        """The first block with a point below the floor in each resample; the number of blocks where there is none."""
        blocks = len(self._nodes)
        found = np.concatenate(
            [
                _first_true(self._at_nodes(columns).score(measure) < floor[columns])
                for columns in (slice(start, start + SCAN) for start in range(0, len(floor), SCAN))
            ]
        )
        # A dip between two nodes may come earlier; nothing after the last of these blocks can.
        return found if blocks == self.curve.points else self._scan(floor, measure, found)

    def _scan(self, floor: NDArray[np.float64], measure: Measure, found: NDArray[np.int64]) -> NDArray[np.int64]:
        """Bring forward the first block below the floor; only events that change what an answer is worth matter."""
        events = self.curve.events
        parts = {name: self._sum(name) for name in self.curve.outcomes.counted}
        stop = events.ends[self._nodes[min(int(found.max()), len(self._nodes) - 1)]]
        moving = np.flatnonzero(np.any([part.change[:stop] != 0 for part in parts.values()], axis=0))
        point = np.searchsorted(events.ends, moving + 1)
        settled = np.append(point[1:] != point[:-1], True)  # the last change of its point: here the score is read
        block = np.searchsorted(self._nodes, point)
        sums = {name: part.start.astype(self._weights.dtype) for name, part in parts.items()}
        for start in range(0, len(moving), SCAN):
            now = slice(start, start + SCAN)
            drawn = self._weights[events.samples[moving[now]]]
            running: dict[str, Any] = {}
            for name, part in parts.items():
                change = part.change[moving[now], None].astype(drawn.dtype) * drawn
                change[0] += sums[name]
                running[name] = np.cumsum(change, axis=0, out=change)
                sums[name] = change[-1].copy()
            read = np.flatnonzero(settled[now])
            if len(read) < len(running["correct"]):
                running = {name: sums_[read] for name, sums_ in running.items()}
            fallen = self._below(floor, running, measure)
            first = _first_true(fallen)
            blocks = np.append(block[now][read], len(self._nodes))
            np.minimum(found, np.where(first < len(read), blocks[first], found), out=found)
        return found

    def _below(self, floor: NDArray[np.float64], sums: dict[str, Any], measure: Measure) -> NDArray[np.bool_]:
        """Whether the score from these ``sums`` [..., resamples] lies below the floor."""
        if measure == "accuracy":  # the same comparison on counts, without a division per entry
            return np.asarray(sums["correct"] < floor * self._totals["samples"] / 100.0)
        score = Tally(self.curve.depth, layers=np.asarray(1), **self._totals, **sums).score(measure)
        return np.asarray(score < floor)

    def rates(self, thresholds: ArrayLike, decisions: Decisions = "all") -> RateTally:
        """The decisions at a threshold, or at each resample's own, by layer, [layers - 1, resamples]."""
        return resampled_rates(self.curve.scores, self.curve.outcomes, self.resamples, thresholds, decisions)


def _first_true(rows: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The first row that is true in each column; the number of rows where none is."""
    return np.where(rows.any(axis=0), rows.argmax(axis=0), len(rows))


def _areas(
    cost: NDArray[np.float64], score: NDArray[np.float64], low: NDArray[np.float64], high: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Integrals of polylines with falling ``cost`` [nodes, resamples], level beyond their ends."""
    width = cost[:-1] - cost[1:]
    slope = np.divide(score[:-1] - score[1:], width, out=np.zeros_like(width), where=width > 0)
    clipped = np.clip(cost, low, high)
    left, right = clipped[1:], clipped[:-1]
    middle = score[1:] + slope * ((left + right) / 2 - cost[1:])
    below = np.maximum(np.minimum(cost[-1], high) - low, 0) * score[-1]
    above = np.maximum(high - np.maximum(cost[0], low), 0) * score[0]
    return np.asarray(((right - left) * middle).sum(axis=0) + below + above)


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
