"""Weighted sums over samples at their exit layers, at a list of operating points and in all resamples at once.

An event changes a sum by the sample's weight, so the sums of all resamples at a list of operating points are one sparse
product of events and weights, and a running sum.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from exitbench.benchmarks.arrays.roomy_array import elements_at, empty, flat_true, full, order_of
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights


def exits_after(curve: Curve, events: int) -> NDArray[np.int64]:
    """The exit layer of each sample once the first ``events`` events have happened, [samples]."""
    exits = full(curve.outcomes.samples, curve.depth, np.int64)
    exits[curve.events.samples[:events]] = curve.events.earlier[:events]  # a later event of a sample overrides
    return exits


@dataclass(frozen=True, eq=False)
class ExitQuantity:
    """A whole number that each sample has at its exit layer, at most ``largest``.

    ``changes`` gives what some events, by their positions, change it by, ``at_exits`` what some samples have at their
    exit layers: both [samples].
    """

    changes: Callable[[NDArray[np.int64]], NDArray[Any]]
    at_exits: Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[Any]]
    largest: int = 1


def layer_quantity(curve: Curve, numbers: NDArray[np.int64]) -> ExitQuantity:
    """A whole number of the exit layer alone, ``numbers`` [layers]."""
    events = curve.events

    def changes(chosen: NDArray[np.int64]) -> NDArray[np.int64]:
        return numbers[events.earlier[chosen] - 1] - numbers[events.later[chosen] - 1]

    return ExitQuantity(changes, lambda exits, _: numbers[exits - 1], int(numbers.max()))


def count_quantity(changes: NDArray[Any], counts: NDArray[Any], largest: int = 1) -> ExitQuantity:
    """The ``counts`` [layers, samples] at the exit layer, which events change by ``changes`` [events]."""
    return ExitQuantity(changes.__getitem__, lambda exits, samples: counts[exits - 1, samples], largest)


def weighted_sums(
    curve: Curve,
    event_indices: NDArray[np.int64],
    quantities: Sequence[ExitQuantity],
    drawn: SampleWeights,
    at_start: Sequence[Any] = (),
) -> NDArray[Any]:
    """Sums over the drawn samples of each quantity at the exit layer, [quantities, points, resamples].

    At point j the first ``event_indices[j]`` events (never falling) have happened. ``at_start`` are the sums at the
    first point, each [resamples], where the caller has them already.
    """
    events = curve.events
    start, stop = int(event_indices[0]), int(event_indices[-1])
    positions = flat_true(elements_at(drawn.rows, events.samples[start:stop]))
    positions += start
    firsts = at_start or list(sums_after(curve, start, quantities, drawn))

    def changes(chosen: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        """How each quantity changes at some events."""
        for quantity in quantities:
            yield quantity.changes(chosen)

    largest = max(float(quantity.largest) for quantity in quantities)
    totals = summed_changes(curve, event_indices, positions, changes, drawn, largest)
    totals = totals.reshape(len(quantities), len(event_indices), drawn.resamples)
    for sums, first in zip(totals, firsts, strict=True):
        sums[0] += first
        cumulative_sum(sums)
    return totals


def summed_changes(
    curve: Curve,
    event_indices: NDArray[np.int64],
    positions: NDArray[np.int64],
    changes: Callable[[NDArray[np.int64]], Iterable[NDArray[Any]]],
    drawn: SampleWeights,
    largest: float | None = None,
) -> NDArray[Any]:
    """What quantities change by from each point to the next, [quantities * points, resamples].

    ``positions`` are the events of the drawn samples, ascending, ``changes`` what each quantity changes by at some of
    them, ``largest`` the most that a quantity ever is, ``None`` where only float64 holds it. Of many samples some are
    taken at a time, with their events.
    """
    kind = np.float64 if largest is None else np.float32
    if drawn.are_few:
        columns = drawn.position[curve.events.samples[positions]]
        matrix = change_matrix(event_indices, positions, changes, columns, kind)(len(drawn.samples))
        return drawn.exact_times(matrix) if largest is None else drawn.times(matrix, largest)
    most = drawn.sparse_weights(largest)
    height = drawn.height(most)
    count = -(-len(drawn.samples) // height)
    number = (elements_at(drawn.position, elements_at(curve.events.samples, positions)) // height).astype(
        np.min_scalar_type(count)  # short ones are sorted by counting
    )
    by_block = order_of(number, "stable")
    counts = np.zeros(count, dtype=np.int64)  # a point may come before every event
    for some in element_blocks(len(number)):
        counts += np.bincount(number[some], minlength=count)
    ends = np.cumsum(counts)
    totals: NDArray[np.float64] | None = None
    for block, (rows, weights) in enumerate(drawn.blocks(most)):
        chosen = np.asarray(positions[by_block[ends[block - 1] if block else 0 : ends[block]]])
        columns = drawn.position[curve.events.samples[chosen]] - rows.start
        part = change_matrix(event_indices, chosen, changes, columns, kind)(len(weights)) @ weights.astype(
            kind, copy=False
        )
        totals = np.zeros(part.shape) if totals is None else totals
        totals += part
    assert totals is not None
    return totals


def change_matrix(
    event_indices: NDArray[np.int64],
    positions: NDArray[np.int64],
    changes: Callable[[NDArray[np.int64]], Iterable[NDArray[Any]]],
    columns: NDArray[np.integer[Any]],
    kind: type[np.floating[Any]],
) -> Callable[[int], csr_array]:
    """The changes at some events as a sparse matrix [quantities * points, samples], given the number of samples.

    All quantities are rows of one matrix: on small caches a product costs less than the call.
    """
    values, counted_columns, ends = [], [], [np.zeros(1, dtype=np.int64)]
    for change in changes(positions):
        counted = np.flatnonzero(change)
        values.append(change[counted].astype(kind))
        counted_columns.append(columns[counted])
        ends.append(ends[-1][-1] + np.searchsorted(positions[counted], event_indices))
    short = np.int32 if ends[-1][-1] < np.iinfo(np.int32).max else np.int64
    entries = (np.concatenate(values), np.concatenate(counted_columns), np.concatenate(ends).astype(short))
    return lambda samples: csr_array(entries, shape=(len(entries[2]) - 1, samples))


def sums_after(curve: Curve, events: int, quantities: Sequence[ExitQuantity], drawn: SampleWeights) -> NDArray[Any]:
    """The sums of each quantity after the first ``events`` events, [quantities, resamples].

    One pass over the weights for all of them: memory, not arithmetic, is the cost.
    """
    exits, there = exits_after(curve, events), empty((len(quantities), len(drawn.samples)), np.float32)
    for some in element_blocks(len(drawn.samples)):
        samples = drawn.samples[some]
        for row, quantity in zip(there, quantities, strict=True):
            row[some] = quantity.at_exits(exits[samples], samples)
    return drawn.times(there, float(there.max(initial=1)))


WIDE = 512
"""From so many columns on, adding two rows takes longer than asking for it."""


def cumulative_sum(sums: NDArray[Any]) -> NDArray[Any]:
    """The cumulative sum along the first axis, in place: row by row, so that memory is passed over once.

    Narrow rows are added in blocks about the root of the length long, whole rows a few dozen times, where ``cumsum``
    goes down the columns one number at a time and takes eight times as long. Whole numbers, so the order does not show.
    """
    if sums.shape[1] >= WIDE:
        before = sums[0]
        for row in sums[1:]:
            np.add(row, before, row)
            before = row
        return sums
    step = max(math.isqrt(len(sums)), 1)
    for row in range(1, step):
        later = sums[row::step]
        later += sums[row - 1 :: step][: len(later)]
    for start in range(step, len(sums), step):
        sums[start : start + step] += sums[start - 1]
    return sums
