"""The exact trade-off curve of one signal: every operating point it has, from one sort.

A point is an outcome that some threshold brings about; neighbouring points differ by the samples of one
distinct certainty, which exit together. No grid is involved. Per-point sums are computed at once; exit
layers and histograms only for the point that is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import arange
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.replay.exit_events import (
    FEW,
    ExitEvents,
    exit_events,
    first_positions,
    passed,
)
from exitbench.benchmarks.replay.exit_rule import exit_histogram, exit_layers
from exitbench.benchmarks.replay.split_events import split_events
from exitbench.benchmarks.replay.tally import Tally, tally_of_layer
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError

Points = NDArray[np.integer[Any]]
"""Some operating points of a curve."""


@dataclass(frozen=True, eq=False)
class Curve:
    """All operating points of a signal, from full depth (point 0) to the earliest exits (the last point).

    Speed-up never falls along the points. A signal with integer thresholds has one point per integer and no
    other, so full depth may be missing from it. ``changes`` [events] are what every event changes the counts of the
    ``outcomes`` by, under their names.
    """

    scores: SignalScores
    outcomes: Outcomes
    events: ExitEvents
    changes: Mapping[str, NDArray[np.int8]]

    @cached_property
    def thresholds(self) -> NDArray[np.float64]:
        """A threshold that realises each point, [points]."""
        return self.thresholds_at(arange(self.points))

    def thresholds_at(self, points: Points) -> NDArray[np.float64]:
        """The same of some points, in their shape."""
        return self.events.thresholds_at(points)

    @property
    def depth(self) -> int:
        return self.outcomes.depth

    @property
    def points(self) -> int:
        return len(self.events.ends)

    @cached_property
    def tally(self) -> Tally:
        """The sums at every point, each [points]."""
        events, outcomes, samples = self.events, self.outcomes, self.outcomes.samples
        sums: dict[str, Any] = {
            name: events.sums_after(events.ends, int(truth[-1].sum()), self.changes[name].__getitem__)
            for name, truth in outcomes.counted.items()
        }
        if outcomes.actual_positive is not None:
            sums["actual_positives"] = np.broadcast_to(np.int64(outcomes.actual_positive.sum()), self.points)
        return Tally(
            self.depth,
            np.broadcast_to(np.int64(samples), self.points),
            events.sums_after(events.ends, self.depth * samples, events.layer_changes),
            cost=None if outcomes.costs is None else self.sums_of_layers(arange(self.points), outcomes.costs),
            **sums,
        )

    def sums_of_layers(self, points: Points, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """The sum of whole ``numbers`` [layers] at the samples' exit layers, at some ``points`` (never falling)."""
        events = self.events

        def changes(some: slice) -> NDArray[np.int64]:
            return numbers[events.earlier[some] - 1] - numbers[events.later[some] - 1]

        return events.sums_after(events.ends[points], int(numbers[-1]) * self.outcomes.samples, changes)

    @cached_property
    def final(self) -> Tally:
        """The network without early exits."""
        return tally_of_layer(self.depth, self.outcomes)

    @cached_property
    def speed_up(self) -> NDArray[np.float64]:
        """[points], never falling."""
        return self.tally.speed_up

    def speed_up_at(self, points: Points) -> NDArray[np.float64]:
        """The same of some points, in their shape."""
        return self._paid_at(points).speed_up

    def first_as_fast(self, speed_ups: ArrayLike) -> NDArray[np.int64]:
        """The first point with at least each of the speed-ups, in their shape; the number of points for none."""
        asked = np.asarray(speed_ups, dtype=np.float64)
        if self.points <= FEW:
            return np.asarray(np.searchsorted(self.speed_up, asked), dtype=np.int64)
        return first_positions(self.points, asked.shape, lambda points: self.speed_up_at(points) >= asked)

    @cached_property
    def relative_cost(self) -> NDArray[np.float64]:
        """Mean cost paid over that of the last layer, [points], never rising."""
        return self.tally.relative_cost

    def relative_cost_at(self, points: Points) -> NDArray[np.float64]:
        """The same of some points, in their shape."""
        return self._paid_at(points).relative_cost

    def _paid_at(self, points: Points) -> Tally:
        """The tally of some points without what is right: a search asks for many."""
        tally, samples = self.tally, np.asarray(self.outcomes.samples)
        cost = None if tally.cost is None else tally.cost[points]
        return Tally(self.depth, samples, tally.layers[points], correct=samples, cost=cost)

    def first_as_cheap(self, costs: ArrayLike) -> NDArray[np.int64]:
        """The first point with at most each of the relative costs, in their shape; the number of points for none."""
        asked = np.asarray(costs, dtype=np.float64)
        if self.points <= FEW:
            return np.asarray(np.searchsorted(-self.relative_cost, -asked), dtype=np.int64)
        return first_positions(self.points, asked.shape, lambda points: self.relative_cost_at(points) <= asked)

    def one_layer_at(self, points: Points) -> NDArray[np.bool_]:
        """Where all samples exit at one and the same layer, in the shape of ``points``: a fixed layer, not the signal.

        All layers are equal exactly where the sum of squares is as small as it can be for their sum.
        """
        rising, positions = np.unique(points, return_inverse=True)
        squares = self.sums_of_layers(rising, np.arange(1, self.depth + 1, dtype=np.int64) ** 2)
        equal = self.outcomes.samples * squares == self.tally.layers[rising] ** 2
        return np.asarray(equal)[positions].reshape(np.shape(points))

    @cached_property
    def earliest_exit(self) -> int:
        """The first layer at which any sample can exit."""
        happened = self.events.earlier[: int(self.events.ends[-1])]
        return int(happened.min()) if len(happened) else self.depth

    @property
    def cost_range(self) -> tuple[float, float]:
        """The smallest and the largest relative cost this signal can have here."""
        largest, smallest = self.relative_cost_at(np.array([0, self.points - 1])).tolist()
        return smallest, largest

    @cached_property
    def right_decision_changes(self) -> NDArray[np.integer[Any]]:
        """What every event changes the number of decisions on right answers by, up to the exit, [events]."""
        return self.events.changes_of(self.outcomes.right_so_far)

    @cached_property
    def right_exit_changes(self) -> NDArray[np.int8]:
        """What every event changes the number of early exits with right answers by, [events]."""
        early = self.outcomes.correct.copy()
        early[-1] = False
        return self.events.changes_of(early)

    def score(self, measure: Measure) -> NDArray[np.float64]:
        """The task score at every point, [points], in percent."""
        return self.tally.score(measure)

    def first_below(self, measure: Measure, score: float) -> int:
        """The first point whose task score is below ``score``; the number of points where none is."""
        for some in element_blocks(self.points):
            below = np.flatnonzero(self.tally[some].score(measure) < score)
            if len(below):
                return int(some.start + below[0])
        return self.points

    def points_at(self, thresholds: ArrayLike) -> NDArray[np.int64]:
        """The operating point that each threshold realises, in the shape of ``thresholds``."""
        levels = np.asarray(thresholds, dtype=np.float64)
        if np.isnan(levels).any():
            raise InputError(f"signal {self.scores.signal!r}: a threshold must be a number, found nan")
        if self.scores.integers is None:
            return passed(self.events.values, levels * self.scores.sign, strict=self.scores.strict)
        strange = levels[~np.isin(levels, self.thresholds)]
        if strange.size:
            low, high = min(self.scores.integers), max(self.scores.integers)
            raise InputError(
                f"signal {self.scores.signal!r}: expected an integer threshold {low}..{high}, found {strange.flat[0]:g}"
            )
        rising = -self.scores.sign  # points go from the most certain threshold down
        return np.searchsorted(rising * self.thresholds, rising * levels).astype(np.int64)

    def split(self, rows: NDArray[np.bool_]) -> tuple[Curve, Curve]:
        """The curve of the samples at ``rows``, a mask, and that of the others, without another sort."""
        sides = zip((rows, ~rows), split_events(self.events, rows, self.changes), strict=True)
        first, second = (
            Curve(self.scores.of_some(side), self.outcomes.take(side), events, changes)
            for side, (events, changes) in sides
        )
        return first, second

    def exit_layers(self, point: int) -> NDArray[np.int64]:
        """The layer at which each sample exits at one operating point, [samples] from 1."""
        return exit_layers(self.scores, float(self.thresholds_at(np.array(point))))

    def histogram(self, point: int) -> NDArray[np.int64]:
        """How many samples exit at each layer at one operating point, [layers]; entry 0 is layer 1."""
        return exit_histogram(self.exit_layers(point), self.depth)


def trade_off_curve(scores: SignalScores, outcomes: Outcomes) -> Curve:
    """The curve of a signal whose ``scores`` [layers - 1, samples] belong to these ``outcomes`` [layers, samples]."""
    if (scores.depth, scores.samples) != (outcomes.depth, outcomes.samples):
        raise InputError(
            f"signal {scores.signal!r}: expected scores for {outcomes.depth} layers and {outcomes.samples} samples, "
            f"found {scores.depth} and {scores.samples}"
        )
    events = exit_events(scores)
    changes = {name: events.changes_of(truth) for name, truth in outcomes.counted.items()}
    return Curve(scores, outcomes, events, changes)
