"""Resampled trade-off curves for many sets of samples at once: weights on events that are already sorted.

Cross-fitting reads a curve for every fold's training part and every resample, with all choices repeated.
Three facts make that cheap. Sums over samples add up, so the curve of a training part is the curve of all
samples minus that of the fold. An event changes a sum by the sample's weight, so the sums of all resamples
at a list of operating points are one sparse product of events and weights, and a running sum. And a resample
needs no finer list of points than its own noise: beyond :data:`ALL_POINTS` points the list is thinned evenly in
cost, with a close mesh around the speed-ups that are read (steps below a tenth of a standard error there).

Weights and what they multiply are whole numbers, and float32 holds whole numbers up to 2^24 exactly; so
results do not depend on the order of summation, on threads, or on the order of samples.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from benchmarks.curve import Curve
from benchmarks.rates import RateTally
from benchmarks.scores import SignalScores
from benchmarks.task_score import Measure, Outcomes, Tally
from exitbench.errors import InputError

ALL_POINTS = 1200
"""Up to this many operating points, every one takes part; beyond, about this many are kept."""

MESH = 96
"""Operating points kept close around each speed-up that is read."""

REACH = 6.0
"""Half the width of that neighbourhood, in standard errors of the mean exit layer."""

Weights = NDArray[np.uint8]
"""How often each sample is drawn in each resample, [samples, resamples]."""

FEW = 1 << 24
"""Up to this many weights are kept as float32, ready to be multiplied; more of them become float32 block by block."""

BLOCK = 1 << 22
"""Weights in such a block."""

LARGEST_EXACT = 1 << 24

SEARCHED = 64
"""Marks looked at together for the first one whose score has fallen."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """Some of a curve's samples with their ``weights`` [drawn, resamples]; ``rows`` [samples] says which they are.

    Made once per part and shared by all signals, since copying weights costs as much as summing them.
    """

    weights: Weights | NDArray[np.float32]
    rows: NDArray[np.bool_]

    @classmethod
    def of(cls, weights: Weights, rows: NDArray[np.bool_] | None = None) -> Drawn:
        """From the weights [samples, resamples] of all samples."""
        if rows is None or rows.all():
            rows = np.ones(len(weights), dtype=bool)
        else:
            weights = weights[rows]
        return cls(weights.astype(np.float32) if weights.size <= FEW else weights, rows)

    @property
    def resamples(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """The samples that are drawn from, ascending."""
        return np.flatnonzero(self.rows)

    @cached_property
    def position(self) -> NDArray[np.int64]:
        """Where each sample stands among the drawn ones, [samples]."""
        return np.cumsum(self.rows) - 1

    def blocks(self) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The weights of some resamples at a time, so that memory is bounded whatever the number of samples."""
        width = self.resamples if self.weights.dtype == np.float32 else max(BLOCK // len(self.weights), 1)
        for start in range(0, self.resamples, width):
            resamples = slice(start, min(start + width, self.resamples))
            yield resamples, self.weights[:, resamples].astype(np.float32, copy=False)

    def times(self, matrix: Any) -> NDArray[np.float32]:
        """The product of ``matrix`` [..., drawn], dense or sparse, and the weights: [..., resamples]."""
        parts = [np.asarray(matrix @ weights) for _, weights in self.blocks()]
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)

    def sums(self, worths: NDArray[Any]) -> NDArray[np.float32]:
        """The weighted sums of ``worths`` [..., samples] over the drawn samples, [..., resamples]."""
        return self.times(worths[..., self.samples].astype(np.float32))


def listed_points(curve: Curve, speed_ups: Sequence[float]) -> NDArray[np.int64]:
    """The operating points of a curve that its resamples may choose from, ascending."""
    if curve.points <= ALL_POINTS:
        return np.arange(curve.points)
    falling = -curve.relative_cost
    kept = [np.searchsorted(falling, np.linspace(falling[0], falling[-1], ALL_POINTS // 2))]
    for speed_up in speed_ups:
        centre = min(int(np.searchsorted(falling, -1 / speed_up)), curve.points - 1)
        spread = float(curve.exit_layers(centre).std()) / (curve.depth * np.sqrt(curve.outcomes.samples))
        near = np.linspace(-REACH * spread, REACH * spread, MESH) + falling[centre]
        kept.append(np.searchsorted(falling, near))
    ends = np.array([0, curve.points - 1])
    return np.unique(np.clip(np.concatenate([*kept, ends]), 0, curve.points - 1)).astype(np.int64)


def exits_after(curve: Curve, events: int) -> NDArray[np.int64]:
    """The exit layer of each sample once the first ``events`` events have happened, [samples]."""
    exits = np.full(curve.outcomes.samples, curve.depth, dtype=np.int64)
    exits[curve.events.samples[:events]] = curve.events.earlier[:events]  # a later event of a sample overrides
    return exits


def weighted_sums(
    curve: Curve,
    marks: NDArray[np.int64],
    worths: Sequence[NDArray[Any]],
    drawn: Drawn,
    totals: Sequence[NDArray[Any]] = (),
) -> tuple[list[NDArray[np.float32]], NDArray[np.float32]]:
    """Sums over the drawn samples of each worth [layers, samples] at the exit layer, [marks, resamples], and of totals.

    Mark j has seen the first ``marks[j]`` events (never falling). ``totals`` [samples] do not depend on exits and give
    [totals, resamples].
    """
    events = curve.events
    start, stop = int(marks[0]), int(marks[-1])
    positions = start + np.flatnonzero(drawn.rows[events.samples[start:stop]])
    samples, earlier, later = (one[positions] for one in (events.samples, events.earlier, events.later))
    columns = drawn.position[samples]
    exits = exits_after(curve, start)
    everybody = np.arange(curve.outcomes.samples)
    # One pass over the weights for everything that stands at the first mark: memory, not arithmetic, is the cost.
    at_start = drawn.sums(np.stack([worth[exits - 1, everybody] for worth in worths] + list(totals)))
    found = []
    for worth, first in zip(worths, at_start, strict=False):
        change = worth[earlier - 1, samples] - worth[later - 1, samples]
        counted = np.flatnonzero(change)
        ends = np.concatenate([[0], np.searchsorted(positions[counted], marks)])
        entries = (change[counted].astype(np.float32), columns[counted], ends)
        sums = drawn.times(csr_array(entries, shape=(len(marks), len(drawn.weights))))
        sums[0] += first
        found.append(running(sums))
    return found, at_start[len(worths) :]


def weighted_tally(curve: Curve, marks: NDArray[np.int64], drawn: Drawn) -> Tally:
    """The tally of every mark and resample: sums over exits are [marks, resamples], totals [resamples]."""
    outcomes = curve.outcomes
    if outcomes.depth * outcomes.samples * 2 >= LARGEST_EXACT:
        raise InputError(f"expected at most {LARGEST_EXACT // 2 // outcomes.depth} samples, found {outcomes.samples}")
    layers = np.repeat(np.arange(1, outcomes.depth + 1, dtype=np.int16)[:, None], outcomes.samples, axis=1)
    counted = outcomes.counted
    worths: list[NDArray[Any]] = [layers, *(truth.astype(np.int8) for truth in counted.values())]
    everybody = np.ones(outcomes.samples, dtype=np.int8)
    totals = [everybody] if outcomes.positive is None else [everybody, outcomes.positive]
    sums, whole = weighted_sums(curve, marks, worths, drawn, totals)
    positives = None if outcomes.positive is None else whole[1]
    return Tally(outcomes.depth, whole[0], sums[0], positives=positives, **dict(zip(counted, sums[1:], strict=True)))


def resampled_exits(
    exits: NDArray[np.int64], outcomes: Outcomes, drawn: Drawn, counted: NDArray[np.bool_] | None = None
) -> Tally:
    """The resampled sums for fixed exits [samples], each [resamples], float64.

    They go over the drawn samples, or those of them that are ``counted``, a mask [samples].
    """
    columns = np.arange(outcomes.samples)
    worths: dict[str, NDArray[Any]] = {"samples": np.ones(outcomes.samples), "layers": exits}
    worths |= {name: truth[exits - 1, columns] for name, truth in outcomes.counted.items()}
    if outcomes.positive is not None:
        worths["positives"] = outcomes.positive
    stacked = np.stack(list(worths.values()))
    sums = drawn.sums(stacked if counted is None else stacked * counted).astype(np.float64)
    return Tally(outcomes.depth, **dict(zip(worths, sums, strict=True)))


def without(whole: Tally, part: Tally) -> Tally:
    """The samples of ``whole`` that are not in ``part``."""
    left: dict[str, Any] = {}
    for field in dataclasses.fields(Tally):
        mine, theirs = getattr(whole, field.name), getattr(part, field.name)
        left[field.name] = mine if field.name == "depth" or mine is None else mine - theirs
    return Tally(**left)


def running(sums: NDArray[np.float32]) -> NDArray[np.float32]:
    """Running sums along the first axis, in place.

    In blocks of about the root of the length: whole rows are added a few dozen times, where ``cumsum`` goes down the
    columns one number at a time and takes eight times as long. Whole numbers, so the order does not show.
    """
    step = max(math.isqrt(len(sums)), 1)
    for row in range(1, step):
        later = sums[row::step]
        later += sums[row - 1 :: step][: len(later)]
    for start in range(step, len(sums), step):
        sums[start : start + step] += sums[start - 1]
    return sums


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


def nearest_marks(tally: Tally, speed_ups: NDArray[np.float64]) -> NDArray[np.int64]:
    """The mark with the speed-up nearest to each one wanted, the faster of two equally near, [wanted, resamples]."""
    marks, resamples = tally.layers.shape
    drawn = np.asarray(tally.samples, dtype=np.float64)
    wanted = tally.depth * drawn / speed_ups[:, None]
    layers = np.ascontiguousarray(tally.layers).ravel()
    # Halving in all resamples at once: ``place`` is before or at the first mark whose sum is not above the wanted one.
    place = np.broadcast_to(np.arange(resamples), wanted.shape).copy()
    left = marks
    while left > 1:
        half = left // 2
        place += (half * resamples) * (layers.take(place + (half - 1) * resamples) > wanted)
        left -= half
    faster = place // resamples
    faster += (layers.take(place) > wanted) & (faster < marks - 1)
    slower = np.maximum(faster - 1, 0)
    columns = np.arange(resamples)
    with np.errstate(divide="ignore", invalid="ignore"):  # a resample that drew no sample
        speed, before = (tally.depth * drawn / layers.take(one * resamples + columns) for one in (faster, slower))
    target = speed_ups[:, None]
    return np.asarray(np.where(np.abs(target - before) < np.abs(speed - target), slower, faster))


def marks_within_losses(
    tally: Tally, measure: Measure, final: NDArray[np.float64], losses: Sequence[float], rounding: float
) -> NDArray[np.int64]:
    """Coming from full depth, the last mark before the score first falls by more than each loss; -1 for none.

    ``tally`` is [marks, resamples], the last layer's score ``final`` [resamples]; the result is [losses, resamples].
    """
    marks = len(tally.layers)
    least = final - np.array(losses)[:, None] - rounding
    first = np.full(least.shape, marks)
    for start in range(0, marks, SEARCHED):  # many scores fall early: the rest need not be computed
        score = some_marks(tally, slice(start, start + SEARCHED)).score(measure)
        for found, bar in zip(first, least, strict=True):
            fallen = score < bar
            here = np.where(fallen.any(axis=0), start + fallen.argmax(axis=0), marks)
            np.minimum(found, here, out=found)
        if first.max(initial=0) < marks:
            break
    return np.asarray(first - 1, dtype=np.int64)


def weighted_rates(
    scores: SignalScores,
    outcomes: Outcomes,
    thresholds: NDArray[np.float64],
    index: NDArray[np.int64],
    drawn: Drawn,
) -> RateTally:
    """Decisions of kind ``all`` with the threshold ``thresholds[index[b]]`` in resample b, [layers - 1, resamples].

    ``thresholds`` are those of the marks, from the most cautious on; only the drawn samples are counted.
    """
    low, high = int(index.min()), int(index.max())
    bars = -scores.sign * thresholds[low : high + 1]
    side: Literal["left", "right"] = "right" if scores.strict else "left"
    right, asked = outcomes.correct[:-1, drawn.samples], scores.permitted[:, drawn.samples]
    cell = np.searchsorted(bars, -asked.ravel(), side=side).reshape(asked.shape).astype(np.int32)
    first = scores.first_exit_layer - 1
    always = np.zeros(right.shape, dtype=bool)
    always[first:] = cell == 0
    (wrong_exits, right_exits), (wrong_decisions, right_decisions) = (
        drawn.times(np.stack(pair).astype(np.float32)).astype(np.float64)
        for pair in ((always & ~right, always & right), (~right, right))
    )
    for resamples, weights in drawn.blocks():
        for layer in range(len(asked)):
            sometimes = np.flatnonzero((cell[layer] > 0) & (cell[layer] < len(bars)))
            counted = weights[sometimes]
            counted *= cell[layer, sometimes, None] <= index[resamples] - low
            truth = right[first + layer, sometimes]
            exits = np.stack([~truth, truth]).astype(np.float32) @ counted
            wrong_exits[first + layer, resamples] += exits[0]
            right_exits[first + layer, resamples] += exits[1]
    return RateTally(wrong_exits, wrong_decisions, right_decisions - right_exits, right_decisions)


def reached_tally(curve: Curve, marks: NDArray[np.int64], index: NDArray[np.int64], drawn: Drawn) -> RateTally:
    """Decisions of kind ``reached`` over all layers at mark ``index[b]`` in resample b, [resamples]."""
    low, high = int(index.min()), int(index.max())
    right = curve.outcomes.correct
    asked_right = np.cumsum(right, axis=0, dtype=np.int16)
    asked_right[-1] = asked_right[-2]
    asked = np.minimum(np.arange(1, curve.depth + 1), curve.depth - 1).astype(np.int16)[:, None]
    exits_right, exits_wrong = right.astype(np.int8), (~right).astype(np.int8)
    exits_right[-1] = exits_wrong[-1] = 0
    columns = np.arange(len(index))

    worths = [exits_wrong, asked - asked_right, exits_right, asked_right]
    sums, _ = weighted_sums(curve, marks[low : high + 1], worths, drawn)
    wrong, wrong_asked, rights, rights_asked = (one[index - low, columns].astype(np.float64) for one in sums)
    return RateTally(wrong, wrong_asked, rights_asked - rights, rights_asked)
