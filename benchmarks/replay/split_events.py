"""The events of some samples and those of the others: the events of all are in order, so nothing is sorted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import arange, empty
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.replay.exit_events import ExitEvents

Changes = Mapping[str, NDArray[np.int8]]
"""What every event changes some counts by, each [events]."""


def split_events(
    whole: ExitEvents, rows: NDArray[np.bool_], changes: Changes
) -> tuple[tuple[ExitEvents, Changes], tuple[ExitEvents, Changes]]:
    """The events of the samples at ``rows``, a mask, with what they change, and those of the others.

    ``whole`` and ``changes`` are those of all samples, and are passed over once.
    """
    size = len(whole.samples)
    count = sum(int(np.count_nonzero(rows.take(whole.samples[some]))) for some in element_blocks(size))
    number = empty(len(rows), np.int32)
    np.cumsum(rows, dtype=np.int32, out=number)
    chosen_events = SomeEvents(whole, changes, count, number - np.int32(1))
    other_events = SomeEvents(whole, changes, size - count, (arange(len(rows)) - number).astype(np.int32))
    for some in element_blocks(size):
        chosen = rows.take(whole.samples[some])
        chosen_events.add(some, chosen)
        other_events.add(some, ~chosen)
    return chosen_events.made(), other_events.made()


class SomeEvents:
    """The events of some samples, which are ``number`` [samples] among themselves, taken in block after block."""

    def __init__(self, whole: ExitEvents, changes: Changes, count: int, number: NDArray[np.int32]) -> None:
        self.whole, self.number, self.names = whole, number, tuple(changes)
        self.is_integer = whole.integer_thresholds is not None
        self.columns: list[NDArray[Any]] = [whole.samples, whole.later, whole.earlier, *changes.values()]
        self.kept = [empty(count, column.dtype) for column in self.columns]
        points = len(whole.ends) if self.is_integer else min(len(whole.ends), count + 1)
        self.values, self.ends = empty(points, np.float64), empty(points, np.int64)
        self.seen = self.points = int(np.searchsorted(whole.ends, 0, side="right"))
        self.ends[: self.points] = self.filled = 0

    def add(self, some: slice, chosen: NDArray[np.bool_]) -> None:
        """Take in those of the next events that are ``chosen``, with the points after them."""
        here = np.flatnonzero(chosen)
        filled = slice(self.filled, self.filled + len(here))
        for column, kept in zip(self.columns, self.kept, strict=True):
            kept[filled] = column[some][here]
        samples = self.kept[0][filled]
        samples[:] = self.number.take(samples)
        # The points at whose values something happens to these samples; every integer stays a point.
        there = slice(self.seen, int(np.searchsorted(self.whole.ends, some.stop, side="right")))
        ends = np.cumsum(chosen)[self.whole.ends[there] - (some.start + 1)] + self.filled
        happens = np.diff(ends, prepend=self.ends[self.points - 1] if self.points else 0) > 0
        happens |= self.is_integer
        added = slice(self.points, self.points + int(np.count_nonzero(happens)))
        self.ends[added] = ends[happens]
        if not self.is_integer:
            values = self.whole.values[there.start - 1 : there.stop - 1]
            self.values[added.start - 1 : added.stop - 1] = values[happens]
        self.seen, self.points, self.filled = there.stop, added.stop, filled.stop

    def made(self) -> tuple[ExitEvents, Changes]:
        """All of them, with what they change."""
        samples, later, earlier, *changes = self.kept
        events = ExitEvents(
            samples,
            later,
            earlier,
            self.whole.values if self.is_integer else self.values[: self.points - 1],
            self.ends[: self.points],
            self.whole.sign,
            self.whole.strict,
            self.whole.integer_thresholds,
        )
        return events, dict(zip(self.names, changes, strict=True))
