"""Exit events: at which threshold each sample exits at each layer, sorted once.

Lower the threshold on certainty from "nothing exits". A sample first exits at the layer of its largest certainty;
when the threshold reaches the largest certainty among the layers before that one, it exits there instead; and so on.
So the records of the running maximum are all that can happen to a sample: at each, it moves from a later layer to an
earlier one. Sorting these events by value puts every outcome of every threshold in a row, and any sum over
samples (of exit layers, of right answers) becomes a running sum of what the events change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, full
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.scoring.signal_scores import SignalScores

FEW = 1 << 16
"""Up to so many values or points a search may make something of all of them first; of more it takes some steps."""

Changes = Callable[[slice], NDArray[Any]]
"""What some of the events, one after another, change a sum by."""


@dataclass(frozen=True, eq=False)
class ExitEvents:
    """All moves in the order of falling certainty, and the operating points among them.

    ``samples`` [events] moves from layer ``later`` to layer ``earlier`` (both from 1). Operating point k has
    seen the first ``ends[k]`` events. Points go from the most cautious to the earliest exits. ``values`` [distinct] are
    the certainties at which something happens, falling (of some samples of a signal that counts: those of all).
    ``sign`` and ``strict`` say how a score is read; ``integer_thresholds`` are those of the points of a signal that
    counts, on the scale of its score.
    """

    samples: NDArray[np.int32]
    later: NDArray[np.int16]
    earlier: NDArray[np.int16]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]
    sign: int
    strict: bool
    integer_thresholds: NDArray[np.float64] | None = None

    def thresholds_at(self, points: NDArray[np.integer[Any]]) -> NDArray[np.float64]:
        """A threshold on the scale of the score that realises each of some operating points, in their shape."""
        if self.integer_thresholds is not None:
            return np.asanyarray(self.integer_thresholds[points])
        return np.asanyarray(self.sign * certainty_thresholds(self.values, points, strict=self.strict))

    def changes_of(self, counts: NDArray[Any]) -> NDArray[Any]:
        """What every event changes the sum of ``counts`` [layers, samples] at the exit layers by, [events].

        Truths count as 0 and 1; others keep their kind, which holds their differences.
        """
        small = counts.view(np.int8) if counts.dtype == bool else counts
        flat, width = small.reshape(-1), np.int64(counts.shape[1])
        change = empty(len(self.samples), small.dtype)
        for some in element_blocks(len(change)):
            samples = self.samples[some]
            change[some] = flat.take((self.earlier[some] - 1) * width + samples)
            change[some] -= flat.take((self.later[some] - 1) * width + samples)
        return change

    def layer_changes(self, some: slice) -> NDArray[np.int16]:
        """What some events change the sum of exit layers by."""
        return self.earlier[some] - self.later[some]

    def sums_after(self, counts: NDArray[np.integer[Any]], start: Any, changes: Changes) -> NDArray[Any]:
        """A sum that is ``start`` at full depth, after the first ``counts`` (never falling) events, in their shape.

        It is in 64 bits: whole numbers, or floats that are added one by one from the first event on.
        """
        kind = np.float64 if isinstance(start, float) else np.int64
        sums, before, filled = empty(len(counts), kind), kind(start), int(np.searchsorted(counts, 0, side="right"))
        sums[:filled] = start
        for some in element_blocks(len(self.samples)):
            if filled == len(counts):
                break
            running = changes(some).astype(kind)
            running[0] += before
            np.cumsum(running, out=running)
            here = slice(filled, int(np.searchsorted(counts, some.stop, side="right")))
            sums[here] = running[counts[here] - (some.start + 1)]
            before, filled = running[-1], here.stop
        return sums


def exit_events(scores: SignalScores) -> ExitEvents:
    """The events of one signal, by one sort of the running maximum's records."""
    running, first, depth = scores.running, scores.first_exit_layer, scores.depth
    record = empty(running.shape, bool)
    np.greater(running[:1], -np.inf, out=record[:1])  # nothing exits before the first layer with a score
    np.greater(running[1:], running[:-1], out=record[1:])
    later = empty(running.shape, np.int16)
    after = full(scores.samples, depth, np.int16)
    for row in range(len(running) - 1, -1, -1):
        later[row] = after
        after = np.where(record[row], np.int16(first + row), after)
    # Short integers where they do: what follows waits for memory.
    number = np.uint32 if record.size <= np.iinfo(np.uint32).max else np.uint64
    records = np.flatnonzero(record).astype(number)
    falling = -running.ravel()[records]
    order = np.argsort(falling)
    falling, records = falling[order], records[order]
    rows, samples = np.divmod(records, number(scores.samples))
    new = empty(len(falling), bool)
    new[:1] = True
    np.not_equal(falling[1:], falling[:-1], out=new[1:])
    starts = np.flatnonzero(new)
    values = -falling[starts]
    ends = np.append(starts, len(falling)).astype(np.int64)
    thresholds = None
    if scores.integers is not None:
        thresholds = np.sort(np.array(scores.integers, dtype=np.float64) * -scores.sign) * -scores.sign
        ends = ends[passed(values, thresholds * scores.sign, strict=scores.strict)]
    return ExitEvents(
        samples.astype(np.int32),
        later.ravel()[records],
        rows.astype(np.int16) + np.int16(first),
        values,
        ends,
        scores.sign,
        scores.strict,
        thresholds,
    )


def passed(values: NDArray[np.float64], certainty_thresholds: ArrayLike, *, strict: bool) -> NDArray[np.int64]:
    """How many of the falling ``values`` pass each threshold on certainty: lie above it, or (not ``strict``) on it."""
    asked = np.asarray(certainty_thresholds, dtype=np.float64)
    if len(values) <= FEW:
        return np.searchsorted(-values, -asked, side="left" if strict else "right").astype(np.int64)
    fails: np.ufunc = np.less_equal if strict else np.less
    return first_positions(len(values), asked.shape, lambda positions: fails(values[positions], asked))


def first_positions(
    count: int, shape: tuple[int, ...], holds: Callable[[NDArray[np.int64]], NDArray[np.bool_]]
) -> NDArray[np.int64]:
    """The first of ``count`` positions at which each of some conditions holds, by bisection; ``count`` for none.

    A condition that holds somewhere holds from there on. ``holds`` is asked at one position for each of them.
    """
    low, high = np.zeros(shape, dtype=np.int64), np.full(shape, count, dtype=np.int64)
    for _ in range(count.bit_length()):
        middle = (low + high) // 2
        met = holds(np.minimum(middle, count - 1)) & (middle < high)
        low, high = np.where(met | (low == high), low, middle + 1), np.where(met, middle, high)
    return low


def certainty_thresholds(
    values: NDArray[np.float64], counts: NDArray[np.integer[Any]], *, strict: bool
) -> NDArray[np.float64]:
    """Thresholds on certainty that the first ``counts`` of the falling distinct ``values`` pass, in the same shape.

    Between adjacent floats the midpoint rounds to one of the two. A threshold on the upper value still keeps it
    in under ``>=`` but not under ``>``; a threshold on the lower one still keeps it out under ``>`` but not under
    ``>=``. So the wrong neighbour is exchanged for the right one, which realises exactly the same point. None and all
    pass at an infinite threshold.
    """
    count = np.asanyarray(counts)
    if not len(values):
        return np.full(count.shape, np.inf)
    upper, lower = values.take(np.maximum(count - 1, 0)), values.take(np.minimum(count, len(values) - 1))
    with np.errstate(over="ignore"):
        middle = np.asanyarray((upper + lower) / 2)
    middle = np.where(np.isfinite(middle), middle, upper / 2 + lower / 2)
    middle = np.where(middle == upper, lower, middle) if strict else np.where(middle == lower, upper, middle)
    return np.asanyarray(np.where(count == 0, np.inf, np.where(count == len(values), -np.inf, middle)))
