"""Exit events: at which threshold each sample exits at each layer, sorted once.

Lower the threshold on certainty from "nothing exits". A sample first exits at the layer of its largest certainty;
when the threshold reaches the largest certainty among the layers before that one, it exits there instead; and so on.
So the records of the running maximum are all that can happen to a sample: at each, it moves from a later layer to an
earlier one. Sorting these events by value puts every outcome of every threshold in a row, and any sum over
samples (of exit layers, of right answers) becomes a running sum of what the events change.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, full
from exitbench.benchmarks.scoring.signal_scores import SignalScores


@dataclass(frozen=True, eq=False)
class ExitEvents:
    """All moves in the order of falling certainty, and the operating points among them.

    ``samples`` [events] moves from layer ``later`` to layer ``earlier`` (both from 1). Operating point k has
    seen the first ``ends[k]`` events; ``thresholds[k]``, on the scale of the score, realises it. Points go from
    the most cautious to the earliest exits. ``values`` [distinct] are the certainties at which something
    happens, falling.
    """

    samples: NDArray[np.int32]
    later: NDArray[np.int16]
    earlier: NDArray[np.int16]
    values: NDArray[np.float64]
    ends: NDArray[np.int64]
    thresholds: NDArray[np.float64]

    @cached_property
    def rising(self) -> NDArray[np.float64]:
        """The values with their sign turned, as a search needs them, [distinct]."""
        return -self.values

    def running_sum(self, truth: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The number of samples whose answer has ``truth`` [layers, samples], at every operating point."""
        flat, width = truth.astype(np.int8).ravel(), np.int64(truth.shape[1])
        change = flat.take((self.earlier - 1) * width + self.samples)
        change -= flat.take((self.later - 1) * width + self.samples)
        return self._from_full_depth(int(truth[-1].sum()), change)

    def running_layers(self, depth: int, samples: int) -> NDArray[np.int64]:
        """The sum of exit layers at every operating point."""
        return self._from_full_depth(depth * samples, self.earlier - self.later)

    def running_cost(self, costs: NDArray[np.int64], samples: int) -> NDArray[np.int64]:
        """The sum of what the samples pay at every operating point; ``costs`` [layers] are whole numbers."""
        return self._from_full_depth(int(costs[-1]) * samples, costs[self.earlier - 1] - costs[self.later - 1])

    def _from_full_depth(self, start: int, change: NDArray[np.integer]) -> NDArray[np.int64]:
        sums = empty(len(change) + 1, np.int64)
        sums[0] = start
        np.cumsum(change, out=sums[1:])
        sums[1:] += start
        return sums[self.ends]


def events_of_some(whole: ExitEvents, rows: NDArray[np.bool_], scores: SignalScores) -> ExitEvents:
    """The events of the samples at ``rows``, a mask, which have these ``scores``; ``whole`` are those of all.

    They are in order already, so nothing is sorted again.
    """
    if scores.integers is not None:  # such a signal keeps only the ends of its few points
        return exit_events(scores)
    chosen = rows.take(whole.samples)
    until = empty(len(chosen) + 1, np.int64)
    until[0] = 0
    np.cumsum(chosen, out=until[1:])
    kept, ends = np.flatnonzero(chosen), until.take(whole.ends)
    happens = np.flatnonzero(ends[1:] > ends[:-1])
    values = whole.values.take(happens)
    return ExitEvents(
        (np.cumsum(rows, dtype=np.int32) - np.int32(1)).take(whole.samples.take(kept)),
        whole.later.take(kept),
        whole.earlier.take(kept),
        values,
        np.concatenate([ends[:1], ends.take(happens + 1)]),
        scores.sign * certainty_thresholds(values, strict=scores.strict),
    )


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
    if scores.integers is None:
        thresholds = scores.sign * certainty_thresholds(values, strict=scores.strict)
    else:
        thresholds = np.sort(np.array(scores.integers, dtype=np.float64) * -scores.sign) * -scores.sign
        ends = ends[passed(-values, thresholds * scores.sign, strict=scores.strict)]
    return ExitEvents(
        samples.astype(np.int32),
        later.ravel()[records],
        rows.astype(np.int16) + np.int16(first),
        values,
        ends,
        thresholds,
    )


def passed(
    rising: NDArray[np.float64], certainty_thresholds: NDArray[np.float64], *, strict: bool
) -> NDArray[np.int64]:
    """How many values pass each threshold on certainty: lie above it, or (not ``strict``) on it.

    ``rising`` are the falling values with their sign turned.
    """
    return np.searchsorted(rising, -certainty_thresholds, side="left" if strict else "right").astype(np.int64)


def certainty_thresholds(values: NDArray[np.float64], *, strict: bool) -> NDArray[np.float64]:
    """Thresholds on certainty that 0, 1, .. distinct values pass, [distinct + 1]: midpoints, infinite at the ends.

    Between adjacent floats the midpoint rounds to one of the two. A threshold on the upper value still keeps it
    in under ``>=`` but not under ``>``; a threshold on the lower one still keeps it out under ``>`` but not under
    ``>=``. So the wrong neighbour is exchanged for the right one, which realises exactly the same point.
    """
    upper, lower = values[:-1], values[1:]
    with np.errstate(over="ignore"):
        middle = (upper + lower) / 2
    huge = ~np.isfinite(middle)
    middle[huge] = upper[huge] / 2 + lower[huge] / 2
    middle = np.where(middle == upper, lower, middle) if strict else np.where(middle == lower, upper, middle)
    return np.concatenate([[np.inf], middle, [-np.inf]]) if len(values) else np.array([np.inf])
