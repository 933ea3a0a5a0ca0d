"""How often resamples draw samples, and sums over the drawn ones: in memory where they are few, block by block beyond.

Weights and what they multiply are whole numbers, and float32 holds whole numbers up to 2^24 exactly, float64 up to
2^53; so results do not depend on the order of summation, on blocks, on threads, or on the order of samples.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import empty, flat_true, full
from exitbench.benchmarks.arrays.scratch_space import is_large
from exitbench.memory_budget import memory_budget

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

    def sparse_weights(self, largest: float | None) -> int:
        """In how many weights a sparse product sums exactly, whatever it counts; ``None``: in float64 anyway."""
        return SPARSE_BLOCK // 4 if largest is None else min(self.exact_weights(largest), SPARSE_BLOCK)

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
