"""Readings off resampled curves: for every resample the mark at a speed-up or within a loss, and the sums there.

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

SEARCHED = 64
"""Marks looked at together for the first one whose score has fallen."""


def without(whole: Tally, part: Tally) -> Tally:
    """The samples of ``whole`` that are not in ``part``."""
    left: dict[str, Any] = {}
    for field in dataclasses.fields(Tally):
        mine, theirs = getattr(whole, field.name), getattr(part, field.name)
        left[field.name] = mine if field.name == "depth" or mine is None else mine - theirs
    return Tally(**left)


def some_marks(tally: Tally, marks: slice) -> Tally:
    """The sums at some of the marks, float64: scores that are compared are not rounded before."""
    changed = {
        name: sums[marks].astype(np.float64) if np.ndim(sums) == 2 else sums
        for name, sums in ((field.name, getattr(tally, field.name)) for field in dataclasses.fields(Tally))
    }
    return Tally(**changed)


def gather(tally: Tally, index: NDArray[np.int64]) -> Tally:
    """One mark per resample: ``index`` [..., resamples] into the marks gives sums of that shape, float64."""
    place = index * index.shape[-1] + np.arange(index.shape[-1])
    found: dict[str, Any] = {}
    for field in dataclasses.fields(Tally):
        sums = getattr(tally, field.name)
        if field.name == "depth" or sums is None:
            found[field.name] = sums
        else:
            taken = np.broadcast_to(sums, index.shape) if np.ndim(sums) == 1 else sums.ravel().take(place)
            found[field.name] = taken.astype(np.float64)
    return Tally(**found)


def nearest_marks(tally: Tally, speed_ups: NDArray[np.float64], less: Tally | None = None) -> NDArray[np.int64]:
    """The mark with the speed-up nearest to each one wanted, the faster of two equally near, [wanted, resamples].

    ``tally`` is [marks, resamples]; the samples of ``less``, shaped like it, are left out.
    """
    layers, samples, depth = tally.layers, tally.samples, tally.depth
    if less is not None:
        layers, samples = layers - less.layers, samples - less.samples
    marks, resamples = layers.shape
    drawn = np.asarray(samples, dtype=np.float64)
    flat = np.ascontiguousarray(layers).ravel()
    # A whole number is above the wanted one exactly if it is above its floor, which float32 holds.
    wanted = np.floor(depth * drawn / speed_ups[:, None]).astype(np.float32)
    # Halving in all resamples at once: ``place`` is before or at the first mark whose sum is not above the wanted one.
    place = np.broadcast_to(np.arange(resamples), wanted.shape).copy()
    probe, here, above = np.empty_like(place), np.empty_like(wanted), np.empty(wanted.shape, dtype=bool)
    left = marks
    while left > 1:
        half = left // 2
        np.add(place, (half - 1) * resamples, out=probe)
        flat.take(probe, out=here, mode="clip")
        np.greater(here, wanted, out=above)
        np.multiply(above, half * resamples, out=probe)
        place += probe
        left -= half
    faster = place // resamples
    faster += (flat.take(place) > wanted) & (faster < marks - 1)
    slower = np.maximum(faster - 1, 0)
    columns = np.arange(resamples)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample that drew no sample
        speed, before = (depth * drawn / flat.take(one * resamples + columns) for one in (faster, slower))
    target = speed_ups[:, None]
    return np.asarray(np.where(np.abs(target - before) < np.abs(speed - target), slower, faster))


def marks_within_losses(
    tally: Tally,
    measure: Measure,
    final: NDArray[np.float64],
    losses: Sequence[float],
    rounding: float,
    less: Tally | None = None,
) -> NDArray[np.int64]:
    """Coming from full depth, the last mark before the score first falls by more than each loss; -1 for none.

    ``tally`` is [marks, resamples], the last layer's score ``final`` [resamples]; the result is [losses, resamples].
    The samples of ``less``, shaped like ``tally``, are left out; only where the search comes by are they taken off.
    """
    marks = len(tally.layers)
    least = final - np.array(losses)[:, None] - rounding
    samples = tally.samples if less is None else tally.samples - less.samples
    bars = fewest_right(least, samples) if measure == "accuracy" else least
    first = np.full(least.shape, marks)
    for start in range(0, marks, SEARCHED):  # many scores fall early: the rest need not be computed
        here = slice(start, start + SEARCHED)
        if measure == "accuracy":
            worth = tally.correct[here] if less is None else tally.correct[here] - less.correct[here]
        else:
            mine = some_marks(tally, here)
            worth = (mine if less is None else without(mine, some_marks(less, here))).score(measure)
        lowest = worth.min(axis=0)
        for found, bar in zip(first, bars, strict=True):
            falling = np.flatnonzero((lowest < bar) & (found == marks))
            if len(falling):
                found[falling] = start + (worth[:, falling] < bar[falling]).argmax(axis=0)
        if first.max(initial=0) < marks:
            break
    return np.asarray(first - 1, dtype=np.int64)


def fewest_right(accuracy: NDArray[np.float64], samples: NDArray[Any]) -> NDArray[np.float32]:
    """The fewest right answers among ``samples`` [resamples] whose accuracy in percent, as it is computed, is enough.

    ``accuracy`` is [..., resamples], and so is the result; NaN where there is no sample. The accuracy of a count rises
    with the count, so the first count that is enough is found by trying those around the quotient.
    """
    size = np.asarray(samples, dtype=np.float64)
    below = np.ceil(accuracy * size / 100.0) - 2.0
    with np.errstate(invalid="ignore", divide="ignore"):
        short = [100.0 * (below + more) / size < accuracy for more in range(4)]
    fewest = below + np.sum(short, axis=0)
    return np.where(size > 0, fewest, np.nan).astype(np.float32)
