"""The exact trade-off curve of one signal: every operating point it has, from one sort.

A point is an outcome that some threshold brings about; neighbouring points differ by the samples of one
distinct certainty, which exit together. No grid is involved. Per-point sums are computed at once; exit
layers and histograms only for the point that is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.replay.exit_events import ExitEvents, events_of_some, exit_events, passed
from exitbench.benchmarks.replay.exit_rule import exit_histogram, exit_layers
from exitbench.benchmarks.replay.tally import Tally, tally_at
from exitbench.benchmarks.scoring.outcomes import Measure, Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError


@dataclass(frozen=True, eq=False)
class Curve:
    """All operating points of a signal, from full depth (point 0) to the earliest exits (the last point).

    Speed-up never falls along the points. A signal with integer thresholds has one point per integer and no
    other, so full depth may be missing from it.
    """

    scores: SignalScores
    outcomes: Outcomes
    events: ExitEvents

    @property
    def thresholds(self) -> NDArray[np.float64]:
        """A threshold that realises each point, [points]."""
        return self.events.thresholds

    @property
    def depth(self) -> int:
        return self.outcomes.depth

    @property
    def points(self) -> int:
        return len(self.events.ends)

    @cached_property
    def tally(self) -> Tally:
        """The sums at every point, each [points]."""
        samples = self.outcomes.samples
        sums: dict[str, Any] = {name: self.events.running_sum(truth) for name, truth in self.outcomes.counted.items()}
        if self.outcomes.actual_positive is not None:
            sums["actual_positives"] = np.broadcast_to(np.int64(self.outcomes.actual_positive.sum()), self.points)
        return Tally(
            self.depth,
            np.broadcast_to(np.int64(samples), self.points),
            self.events.running_layers(self.depth, samples),
            cost=None if self.outcomes.costs is None else self.events.running_cost(self.outcomes.costs, samples),
            **sums,
        )

    @cached_property
    def final(self) -> Tally:
        """The network without early exits."""
        return tally_at(full(self.outcomes.samples, self.depth, np.int64), self.outcomes)

    @cached_property
    def speed_up(self) -> NDArray[np.float64]:
        """[points], never falling."""
        return self.tally.speed_up

    @cached_property
    def relative_cost(self) -> NDArray[np.float64]:
        """Mean cost paid over that of the last layer, [points], never rising."""
        return self.tally.relative_cost

    @cached_property
    def one_layer(self) -> NDArray[np.bool_]:
        """The points at which all samples exit at one and the same layer, [points]: a fixed layer, not the signal."""
        samples, layers = self.outcomes.samples, np.arange(1, self.depth + 1, dtype=np.int64)
        # All layers are equal exactly where the sum of squares is as small as it can be for their sum.
        squares = self.events.running_cost(layers**2, samples)
        return np.asanyarray(samples * squares == self.tally.layers**2)

    @property
    def cost_range(self) -> tuple[float, float]:
        """The smallest and the largest relative cost this signal can have here."""
        return float(self.relative_cost[-1]), float(self.relative_cost[0])

    def score(self, measure: Measure) -> NDArray[np.float64]:
        """The task score at every point, [points], in percent."""
        return self.tally.score(measure)

    def points_at(self, thresholds: ArrayLike) -> NDArray[np.int64]:
        """The operating point that each threshold realises, in the shape of ``thresholds``."""
        levels = np.asarray(thresholds, dtype=np.float64)
        if np.isnan(levels).any():
            raise InputError(f"signal {self.scores.signal!r}: a threshold must be a number, found nan")
        if self.scores.integers is None:
            return passed(self.events.rising, levels * self.scores.sign, strict=self.scores.strict)
        strange = levels[~np.isin(levels, self.thresholds)]
        if strange.size:
            low, high = min(self.scores.integers), max(self.scores.integers)
            raise InputError(
                f"signal {self.scores.signal!r}: expected an integer threshold {low}..{high}, found {strange.flat[0]:g}"
            )
        rising = -self.scores.sign  # points go from the most certain threshold down
        return np.searchsorted(rising * self.thresholds, rising * levels).astype(np.int64)

    def of_some(self, rows: NDArray[np.bool_]) -> Curve:
        """The curve of the samples at ``rows``, a mask, without another sort."""
        scores = self.scores.take(rows)
        return Curve(scores, self.outcomes.take(rows), events_of_some(self.events, rows, scores))

    def exit_layers(self, point: int) -> NDArray[np.int64]:
        """The layer at which each sample exits at one operating point, [samples] from 1."""
        return exit_layers(self.scores, float(self.thresholds[point]))

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
    return Curve(scores, outcomes, exit_events(scores))
