"""Operating points on resampled curves: for every resample the point at a speed-up or within a loss, and its sums.

All resamples are searched at once in the sums that ``resampled_curves`` makes. Sums are whole numbers, so
what can be compared as counts is: a comparison of counts is exact, and spares the division.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.statistics.resampling.sample_weights import LARGEST_EXACT

SEARCHED = 64
"""Points looked at together for the first one whose score has fallen."""

TOGETHER = 250
"""Resamples in which points near speed-ups are looked for together: their sums and positions fit beside the processor,
which is asked for them at random."""


def sums_without(whole: Tally, part: Tally) -> Tally:
    """The samples of ``whole`` that are not in ``part``."""
    rest: dict[str, Any] = {}
    for field in dataclasses.fields(Tally):
        sums, excluded = getattr(whole, field.name), getattr(part, field.name)
        rest[field.name] = sums if field.name == "depth" or sums is None else sums - excluded
    return Tally(**rest)


def gather(tally: Tally, index: NDArray[np.int64]) -> Tally:
    """One point per resample: ``index`` [..., resamples] into the points gives sums of that shape, float64.

    Sums that are the same at every point are repeated without a copy, so that nobody may write into them.
    """
    positions = index * index.shape[-1] + np.arange(index.shape[-1])
    sums_there: dict[str, Any] = {}
    for field in dataclasses.fields(Tally):
        sums = getattr(tally, field.name)
        if field.name == "depth" or sums is None:
            sums_there[field.name] = sums
        else:
            sums_there[field.name] = (
                np.broadcast_to(np.asarray(sums, dtype=np.float64), index.shape)
                if np.ndim(sums) == 1
                else sums.ravel().take(positions, mode="clip").astype(np.float64)  # no position is out of range
            )
    return Tally(**sums_there)


def nearest_listed_points(tally: Tally, speed_ups: NDArray[np.float64], less: Tally | None = None) -> NDArray[np.int64]:
    """The point with the speed-up nearest to each of ``speed_ups``, the faster of two, [speed_ups, resamples].

    This is a bisection, vectorised over resamples. ``tally`` is [points, resamples]; the samples of ``less``, shaped
    like it, are left out.
    """
    some = range(0, max(tally.paid.shape[1], 1), TOGETHER)
    return np.concatenate(
        [_nearest_in(tally, speed_ups, less, slice(start, start + TOGETHER)) for start in some], axis=1
    )


def _nearest_in(tally: Tally, speed_ups: NDArray[np.float64], less: Tally | None, some: slice) -> NDArray[np.int64]:
    """The same in some of the resamples."""
    paid, samples = tally.paid[:, some], tally.samples[some]
    if less is not None:
        paid, samples = paid - less.paid[:, some], samples - less.samples[some]
    points, resamples = paid.shape
    full = tally.full_cost * np.asarray(samples, dtype=np.float64)
    flat = np.ascontiguousarray(paid).ravel()
    # A whole number is above the target exactly if it is above the target's floor, which the dtype of the sums holds.
    target_paid = np.floor(full / speed_ups[:, None]).astype(flat.dtype)
    # Invariant: ``position`` is before or at the first point whose sum of costs is not above the target.
    columns = np.arange(resamples)
    position = np.broadcast_to(columns, target_paid.shape).copy()
    step = np.empty_like(position)
    here, above = np.empty_like(target_paid), np.empty(target_paid.shape, dtype=bool)
    remaining = points
    while remaining > 1:
        half = remaining // 2
        flat[(half - 1) * resamples :].take(position, out=here, mode="clip")  # as far behind every position
        np.greater(here, target_paid, out=above)
        np.multiply(above, half * resamples, out=step)
        position += step
        remaining -= half
    flat.take(position, out=here, mode="clip")
    np.greater(here, target_paid, out=above)
    np.multiply(above, resamples, out=step)
    position += step
    faster = np.minimum(position, (points - 1) * resamples + columns)
    slower = np.maximum(faster - resamples, columns)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample that drew no sample
        speed, before = (full / flat.take(point, mode="clip") for point in (faster, slower))
    target = speed_ups[:, None]
    return np.asarray(np.where(np.abs(target - before) < np.abs(speed - target), slower, faster) // resamples)


def exactly_at(tally: Tally, speed_up: float) -> Tally:
    """The expected sums at exactly a speed-up in every resample, [resamples]; the nearest end where it is out of reach.

    Between the two listed points of ``tally`` [points, resamples] around it, linear in the sum of exit layers.
    """
    points = len(tally.layers)
    asked = np.asarray(tally.depth * np.asarray(tally.samples, dtype=np.float64) / speed_up)
    faster = np.minimum((tally.layers > asked).sum(axis=0), points - 1)
    before, after = gather(tally, np.maximum(faster - 1, 0)), gather(tally, faster)
    step = before.layers - after.layers
    share = np.divide(before.layers - asked, step, out=np.ones_like(asked), where=step > 0)
    return before.towards(after, np.clip(share, 0.0, 1.0))


def listed_points_within_losses(
    tally: Tally,
    measure: Measure,
    final: NDArray[np.float64],
    losses: Sequence[float],
    rounding: float,
    less: Tally | None = None,
) -> NDArray[np.int64]:
    """Coming from full depth, the last point before the score first falls by more than each loss; -1 for none.

    ``tally`` is [points, resamples], the last layer's score ``final`` [resamples]; the result is [losses, resamples].
    The samples of ``less``, shaped like ``tally``, are left out; only where the search comes by are they taken off.
    """
    points = len(tally.layers)
    least = final - np.array(losses)[:, None] - rounding
    samples = tally.samples if less is None else tally.samples - less.samples
    floors = fewest_right(least, samples) if measure == "accuracy" else least
    first = np.full(least.shape, points)
    still: NDArray[np.int64] | slice = slice(None)  # the resamples that have not fallen below every floor
    for start in range(0, points, SEARCHED):  # many scores fall early: the rest need not be computed
        score = searched_scores(tally, less, measure, slice(start, start + SEARCHED), still)
        lowest = score.min(axis=0)
        for first_below, floor in zip(first, floors, strict=True):
            falls = np.flatnonzero((lowest < floor[still]) & (first_below[still] == points))
            if len(falls):
                fallen = falls if isinstance(still, slice) else still[falls]
                first_below[fallen] = start + (score[:, falls] < floor[fallen]).argmax(axis=0)
        left = np.flatnonzero(first.max(axis=0, initial=0) == points)
        if not len(left):
            break
        if 2 * len(left) < lowest.size:
            still = left
    return np.asarray(first - 1, dtype=np.int64)


def searched_scores(
    tally: Tally, less: Tally | None, measure: Measure, points: slice, resamples: NDArray[np.int64] | slice
) -> NDArray[Any]:
    """The scores at some points in some resamples, [points, resamples]; counts of right answers stand for accuracy.

    Only what the score is made of is cut out, as float64: scores that are compared are not rounded before.
    """

    def part(name: str, kind: type[np.floating[Any]] = np.float64) -> Any:
        cut = []
        for sums in (getattr(several, name) for several in (tally, less) if several is not None):
            if sums is None:
                return None
            here = sums[points][:, resamples] if sums.ndim == 2 else sums[resamples]
            cut.append(here.astype(kind, copy=False))
        return cut[0] if less is None else cut[0] - cut[1]

    if measure == "accuracy":
        return np.asarray(part("correct", tally.correct.dtype.type))
    positives = {name: part(name) for name in ("true_positives", "predicted_positives", "actual_positives")}
    unread = np.zeros(0)  # a score needs no layers, and F1 no right answers either
    correct = unread if measure == "f1" else part("correct")
    return Tally(tally.depth, part("samples"), unread, correct, **positives).score(measure)


def fewest_right(accuracy: NDArray[np.float64], samples: NDArray[Any]) -> NDArray[Any]:
    """The fewest right answers among ``samples`` [resamples] whose accuracy in percent, as it is computed, is enough.

    ``accuracy`` is [..., resamples], and so is the result; NaN where there is no sample. The accuracy of a count rises
    with the count, so the first count that is enough is among those around the quotient.
    """
    size = np.asarray(samples, dtype=np.float64)
    below = np.ceil(accuracy * size / 100.0) - 2.0
    with np.errstate(invalid="ignore", divide="ignore"):
        short = [100.0 * (below + more) / size < accuracy for more in range(4)]
    fewest = below + np.sum(short, axis=0)
    # As short as the counts that it is compared with, unless it does not fit.
    return np.where(size > 0, fewest, np.nan).astype(np.float32 if size.max(initial=0) < LARGEST_EXACT else np.float64)
