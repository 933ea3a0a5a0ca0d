"""The curves of one configuration that a protocol's parts share: exact ones, and resampled sums on lists of points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import full
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve, trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.scoring.score_store import PLAIN, Role, ScoredCache
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.resampling.bootstrap_weights import BootstrapWeights
from exitbench.benchmarks.statistics.resampling.resampled_curves import listed_points, weighted_tally
from exitbench.benchmarks.statistics.resampling.resampled_points import (
    gather,
    listed_points_within_losses,
    nearest_listed_points,
    sums_without,
)


class PartCurves:
    """The curves of one configuration: exact ones per part, and weighted sums shared between parts."""

    def __init__(self, scored: ScoredCache, index: int, weights: BootstrapWeights, speed_ups: Sequence[float]) -> None:
        self.scored, self.index, self.weights, self.speed_ups = scored, index, weights, tuple(speed_ups)
        self.learns = scored.configurations[index].learns
        self._curves: dict[tuple[str, Role], Curve] = {}
        self._points: dict[tuple[str, Role], NDArray[np.int64]] = {}
        self._whole: dict[tuple[str, Role], Tally] = {}

    def scores(self, variant: str, role: Role) -> SignalScores:
        return self.scored.scores(self.index, variant, role)

    def whole(self, variant: str, role: Role) -> Curve:
        """The curve of all samples of one role."""
        key = (variant if self.learns else PLAIN, role)
        if key not in self._curves:
            self._curves[key] = trade_off_curve(self.scores(variant, role), self.scored.samples(role).outcomes)
        return self._curves[key]

    def exact(self, variant: str, role: Role, rows: NDArray[np.bool_]) -> Curve:
        """The curve of some samples of one role."""
        whole = self.whole(variant, role)
        return whole if rows.all() else whole.split(rows)[0]

    def train_and_test(self, part: Part) -> tuple[Curve, Curve]:
        """The curves of a part's training and test samples; on one cache these are those and the others."""
        if part.in_sample or part.train_role == "calibration":
            train = self.exact(part.variant, part.train_role, part.train)
            return train, train if part.in_sample else self.exact(part.variant, "test", part.test)
        test, train = self.whole(part.variant, "test").split(part.test)
        return train, test

    def resampled(self, part: Part) -> ResampledPart:
        """The resampled sums of a part's training and test samples at the same list of thresholds."""
        test = self.whole(part.variant, "test")
        train = self.whole(part.variant, part.train_role)
        points = self._listed(part.variant, part.train_role)
        thresholds = train.thresholds_at(points)
        if part.train_role == "calibration":
            event_indices = test.events.ends[test.points_at(thresholds)]
            chosen_on = self._tally(train, train.events.ends[points], "calibration", part.train)
            return ResampledPart(
                thresholds, event_indices, chosen_on, self._tally(test, event_indices, "test", part.test)
            )
        event_indices = test.events.ends[points]
        whole = self._all(part.variant, event_indices)
        if part.in_sample:
            return ResampledPart(thresholds, event_indices, whole, whole)
        fold = self._tally(test, event_indices, "test", part.test)
        return ResampledPart(thresholds, event_indices, whole, fold, less_test=True)

    def _listed(self, variant: str, role: Role) -> NDArray[np.int64]:
        key = (variant if self.learns else PLAIN, role)
        if key not in self._points:
            self._points[key] = listed_points(self.whole(variant, role), self.speed_ups)
        return self._points[key]

    def _tally(self, curve: Curve, event_indices: NDArray[np.int64], role: Role, rows: NDArray[np.bool_]) -> Tally:
        final = self.weights.final(role, rows, curve.outcomes)
        return weighted_tally(curve, event_indices, self.weights.some(role, rows), final)

    def _all(self, variant: str, event_indices: NDArray[np.int64]) -> Tally:
        key: tuple[str, Role] = (variant if self.learns else PLAIN, "test")
        if key not in self._whole:
            curve = self.whole(variant, "test")
            every_row = full(curve.outcomes.samples, True, bool)
            self._whole = {key: self._tally(curve, event_indices, "test", every_row)}
        return self._whole[key]


@dataclass(frozen=True, eq=False)
class ResampledPart:
    """Sums [points, resamples] at the listed ``thresholds``, each after its number of test events in ``event_indices``.

    The training samples are those of ``chosen_on``, with ``less_test`` without those of ``test``; a pass over all
    points costs as much as summing them, so the difference is computed only at the points that are needed.
    """

    thresholds: NDArray[np.float64]
    event_indices: NDArray[np.int64]
    chosen_on: Tally
    test: Tally
    less_test: bool = False

    @property
    def excluded(self) -> Tally | None:
        """The samples of ``chosen_on`` that are not training samples."""
        return self.test if self.less_test else None

    def nearest(self, speed_ups: NDArray[np.float64]) -> NDArray[np.int64]:
        """The point nearest to each speed-up on the training samples, [speed_ups, resamples]."""
        return nearest_listed_points(self.chosen_on, speed_ups, self.excluded)

    def sums_at(self, index: NDArray[np.int64]) -> tuple[Tally, Tally]:
        """The sums of the training and of the test samples at one point per resample, shaped [..., resamples]."""
        test = gather(self.test, index)
        if self.chosen_on is self.test:
            return test, test
        chosen_on = gather(self.chosen_on, index)
        return (sums_without(chosen_on, test) if self.less_test else chosen_on), test

    def within(self, measure: Measure, final: NDArray[np.float64], losses: Sequence[float]) -> NDArray[np.int64]:
        """The last point within each loss against the score ``final`` [resamples], on the training samples."""
        return listed_points_within_losses(self.chosen_on, measure, final, losses, ROUNDING, self.excluded)
