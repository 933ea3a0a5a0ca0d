"""The Poisson bootstrap of trade-off curves, many sets of samples at once: weights on events already sorted.

Cross-fitting reads a curve for every fold's training part and every resample, with all choices repeated.
Three facts make that cheap. Sums over samples add up, so the curve of a training part is the curve of all
samples minus that of the fold. An event changes a sum by the sample's weight, so the sums of all resamples
at a list of operating points are one sparse product of events and weights, and a running sum. And a resample
needs no finer list of points than its own noise: beyond :data:`ALL_POINTS` points the list is thinned evenly in
cost, with a close mesh around the speed-ups of the operating points (steps below a tenth of a standard error there).

Weights and what they multiply are whole numbers, and float32 holds whole numbers up to 2^24 exactly, float64 up to
2^53; so results do not depend on the order of summation, on blocks, on threads, or on the order of samples.
"""

from __future__ import annotations

import dataclasses
import math
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from exitbench.benchmarks.arrays.roomy_array import arange, elements_at, empty, flat_true, full, order_of
from exitbench.benchmarks.arrays.scratch_space import element_blocks, is_large
from exitbench.benchmarks.replay.tally import Tally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.memory_budget import memory_budget

ALL_POINTS = 1200
"""Up to this many operating points, every one takes part; beyond, about this many are kept."""

MESH = 96
"""Operating points kept close around each speed-up that is asked for."""

REACH = 6.0
"""Half the width of that neighbourhood, in standard errors of the mean exit layer."""

Weights = NDArray[np.uint8]
"""How often each sample is drawn in each resample, [samples, resamples]."""

FEW = 1 << 26
"""Up to this many weights are kept as float32, ready to be multiplied: 0.27 GB, 67,000 samples of 1000 resamples. More
of them become float32 block by block, at every use."""

FEW_SHARE = 28
"""Bytes of the memory budget for each of them: those of all samples and of a part, float32, take less than a third."""

BLOCK = 1 << 20
"""Weights in such a block, which stays near the processor: some samples, all resamples. A block of some resamples and
all samples would be narrow, and a product that walks through everything for a few columns takes four times as long."""

SPARSE_BLOCK = 1 << 22
"""Weights in a block of a sparse product: its sums at all points are added up after every block."""

LARGEST_EXACT = 1 << 24
"""float32 holds all whole numbers up to this one."""

LARGEST_WEIGHT = 12
"""More than any weight: the table of the Poisson law ends before."""


@dataclass(frozen=True, eq=False)
class SampleWeights:
    """Some of a curve's samples with their weights; ``rows`` [samples] says which they are.

    ``weights`` are those of the drawn samples in float32, [drawn, resamples], where they are few; else those of all
    samples as they were made, [samples, resamples], which may lie in a file.
    """

    weights: Weights | NDArray[np.float32]
    rows: NDArray[np.bool_]

    @classmethod
    def of(cls, weights: Weights, rows: NDArray[np.bool_] | None = None) -> SampleWeights:
        """From the weights [samples, resamples] of all samples."""
        if rows is None:
            rows = full(len(weights), True, bool)
        count = int(rows.sum())
        if count * weights.shape[1] > min(FEW, memory_budget() // FEW_SHARE) or is_large(8 * count):
            return cls(weights, rows)
        return cls((weights if rows.all() else weights[rows]).astype(np.float32), rows)

    @property
    def resamples(self) -> int:
        return int(self.weights.shape[1])

    @cached_property
    def samples(self) -> NDArray[np.int64]:
        """The samples that are drawn from, ascending."""
        return flat_true(self.rows)

    @cached_property
    def position(self) -> NDArray[np.int32]:
        """The position of each sample among the drawn ones, [samples]."""
        position = empty(len(self.rows), np.int32)
        np.cumsum(self.rows, dtype=np.int32, out=position)
        position -= np.int32(1)
        return position

    @property
    def are_few(self) -> bool:
        """Whether the weights are kept ready to be multiplied."""
        return self.weights.dtype == np.float32

    def blocks(self, most: int | None = None) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """The weights of some drawn samples at a time, about ``most`` of them, so that memory is bounded.

        Where they are many, each block takes the place of the one before: fresh memory costs more than the product.
        """
        size, height = len(self.samples), self.height(BLOCK if most is None else most)
        buffer = np.empty((0 if self.are_few else height, self.resamples), dtype=np.float32)
        for start in range(0, size, height):
            drawn = slice(start, min(start + height, size))
            if self.are_few:
                yield drawn, np.asarray(self.weights[drawn], dtype=np.float32)
            else:
                block = buffer[: drawn.stop - drawn.start]
                np.copyto(block, self.weights[self.rows_of(drawn)])
                yield drawn, block
                let_go(self.weights)

    def height(self, most: int) -> int:
        """How many samples have about so many weights."""
        return min(max(most // self.resamples, 1), len(self.samples))

    def times(self, matrix: Any, largest: float = 1.0) -> NDArray[Any]:
        """The product of ``matrix`` [..., drawn], dense or sparse, of whole numbers, and the weights: [..., resamples].

        ``largest`` bounds what a drawn sample contributes to any sum that is made of the product. Sums are exact:
        float32 where that holds them, else float64, with float32 inside of blocks that are small enough.
        """
        if self.sums_fit(largest):
            return np.asarray(matrix @ self.weights)
        return self._summed(matrix, self.exact_weights(largest), np.float32)

    def sums_fit(self, largest: float) -> bool:
        """Whether one product in float32 is exact, and its weights are at hand."""
        return self.are_few and largest * len(self.samples) * 2 < LARGEST_EXACT

    def exact_weights(self, largest: float) -> int:
        """In how many weights float32 holds the sums exactly, whatever they are."""
        return max(int(LARGEST_EXACT // (LARGEST_WEIGHT * max(largest, 1.0))), 1) * self.resamples

    def exact_times(self, matrix: Any) -> NDArray[np.float64]:
        """The same product in float64, for whole numbers beyond those of float32."""
        return self._summed(matrix, SPARSE_BLOCK // 4, np.float64)

    def _summed(self, matrix: Any, most: int, kind: type[np.floating[Any]]) -> NDArray[np.float64]:
        """The product in the precision ``kind``, in blocks of at most ``most`` weights, summed in float64."""
        sparse = hasattr(matrix, "tocsc")
        columns = matrix.tocsc() if sparse else matrix  # whose columns are taken without a search
        sums = np.zeros((*matrix.shape[:-1], self.resamples))
        for drawn, weights in self.blocks(min(most, SPARSE_BLOCK if sparse else BLOCK)):
            part = columns[:, drawn].tocsr() if sparse else columns[..., drawn]
            sums += np.asarray(part @ weights.astype(kind, copy=False))
        return sums

    def sums(self, quantities: NDArray[Any]) -> NDArray[Any]:
        """The weighted sums of whole numbers [..., samples] over the drawn samples, [..., resamples].

        Many numbers become float32 block by block, as the weights do.
        """
        largest = float(np.abs(quantities).max(initial=1))
        if self.sums_fit(largest):
            return self.times(quantities[..., self.samples].astype(np.float32), largest)
        sums = np.zeros((*quantities.shape[:-1], self.resamples))
        for drawn, weights in self.blocks(min(self.exact_weights(largest), BLOCK)):
            sums += quantities[..., self.rows_of(drawn)].astype(np.float32) @ weights
        return sums

    def rows_of(self, drawn: slice) -> slice | NDArray[np.int64]:
        """Which of the curve's samples some of the drawn ones are."""
        return drawn if len(self.samples) == len(self.rows) else self.samples[drawn]


def let_go(weights: NDArray[Any]) -> None:
    """Give back the memory of what was read of a file; the file keeps it."""
    if isinstance(weights, np.memmap) and hasattr(mmap, "MADV_DONTNEED"):
        weights._mmap.madvise(mmap.MADV_DONTNEED)  # type: ignore[attr-defined]


def listed_points(curve: Curve, speed_ups: Sequence[float]) -> NDArray[np.int64]:
    """The operating points of a curve that its resamples may choose from, ascending."""
    if curve.points <= ALL_POINTS:
        return np.arange(curve.points)
    cheapest, dearest = curve.cost_range
    kept = [curve.first_as_cheap(-np.linspace(-dearest, -cheapest, ALL_POINTS // 2))]
    for speed_up in speed_ups:
        centre = min(int(curve.first_as_cheap(1 / speed_up)), curve.points - 1)
        paid = curve.outcomes.paid(curve.exit_layers(centre))
        spread = float(paid.std()) / (curve.outcomes.full_cost * np.sqrt(curve.outcomes.samples))
        near = np.linspace(-REACH * spread, REACH * spread, MESH) - curve.relative_cost_at(np.array(centre))
        kept.append(curve.first_as_cheap(-near))
    ends = np.array([0, curve.points - 1])
    return np.unique(np.clip(np.concatenate([*kept, ends]), 0, curve.points - 1)).astype(np.int64)


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
    most = SPARSE_BLOCK // 4 if largest is None else min(drawn.exact_weights(largest), SPARSE_BLOCK)
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


def weighted_tally(
    curve: Curve, event_indices: NDArray[np.int64], drawn: SampleWeights, final: Tally | None = None
) -> Tally:
    """The tally of every point and resample: sums over exits are [points, resamples], totals [resamples].

    Point j has seen the first ``event_indices[j]`` events. ``final`` is the resampled tally of the drawn samples at
    full depth, which signals share; made here if it is ``None``.
    """
    outcomes = curve.outcomes
    counted = outcomes.counted
    quantities = [
        layer_quantity(curve, np.arange(1, outcomes.depth + 1)),
        *(count_quantity(curve.changes[name], truth) for name, truth in counted.items()),
    ]
    if final is None:
        final = resampled_exits(full(outcomes.samples, outcomes.depth, np.int64), outcomes, drawn)
    names = ("layers", *counted)
    # Only a signal with integer thresholds may begin its list of points with some exits already made.
    at_start = [getattr(final, name) for name in names] if event_indices[0] == 0 else []
    sums = weighted_sums(curve, event_indices, quantities, drawn, at_start)
    return Tally(
        outcomes.depth,
        final.samples,
        actual_positives=final.actual_positives,
        cost=None if outcomes.costs is None else weighted_costs(curve, event_indices, outcomes.costs, drawn),
        **dict(zip(names, sums, strict=True)),
    )


def weighted_costs(
    curve: Curve, event_indices: NDArray[np.int64], costs: NDArray[np.int64], drawn: SampleWeights
) -> NDArray[np.float64]:
    """The sums of what the drawn samples pay, [points, resamples], in float64, which holds them exactly."""
    events, start, stop = curve.events, int(event_indices[0]), int(event_indices[-1])
    positions = flat_true(elements_at(drawn.rows, events.samples[start:stop]))
    positions += start

    def changes(chosen: NDArray[np.int64]) -> Iterator[NDArray[Any]]:
        yield costs[events.earlier[chosen] - 1] - costs[events.later[chosen] - 1]

    sums = summed_changes(curve, event_indices, positions, changes, drawn)
    sums[0] += drawn.exact_times(costs[exits_after(curve, start)[drawn.samples] - 1].astype(np.float64))
    return np.asarray(np.cumsum(sums, axis=0))


def resampled_exits(
    exits: NDArray[np.int64], outcomes: Outcomes, drawn: SampleWeights, counted: NDArray[np.bool_] | None = None
) -> Tally:
    """The resampled sums for fixed exits [samples], each [resamples], float64.

    They go over the drawn samples, or those of them that are ``counted``, a mask [samples].
    """
    columns = arange(outcomes.samples)
    short = np.int16  # a layer's number fits, and many samples take less memory
    quantities: dict[str, NDArray[Any]] = {"samples": full(outcomes.samples, 1, short), "layers": exits.astype(short)}
    quantities |= {name: truth[exits - 1, columns] for name, truth in outcomes.counted.items()}
    if outcomes.actual_positive is not None:
        quantities["actual_positives"] = outcomes.actual_positive
    stacked = np.stack(list(quantities.values()))
    sums = drawn.sums(stacked if counted is None else stacked * counted).astype(np.float64)
    tally = Tally(outcomes.depth, **dict(zip(quantities, sums, strict=True)))
    if outcomes.costs is None:
        return tally
    paid = outcomes.paid(exits).astype(np.float64) * (1 if counted is None else counted)
    return dataclasses.replace(tally, cost=drawn.exact_times(paid[drawn.samples]))


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
