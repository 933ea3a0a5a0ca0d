"""Bootstrap resamples as weights, and weighted running sums over events that are sorted already.

A resample is a column of weights. A sum over samples that changes from event to event becomes, for all resamples at
once, a sparse product: block by block of events, what changes times whose weight. The sums are kept at some points, the
*nodes*; between nodes a resample's own stretch of events is added up when it is asked for. Nothing is sorted again.

Weights and changes are whole numbers. As long as no sum can pass 2^24 they are held in float32, otherwise in
float64; either way every sum is exact, so results do not depend on threads, blocks or the order of the samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from benchmarks.hashing import poisson_weights
from benchmarks.scores import Rows

NODES = 1024
"""About how many points carry ready sums; a curve with no more points than this has them everywhere."""

EXACT_IN_FLOAT32 = 1 << 24

Changes = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Resamples:
    """How often each sample is drawn in each resample, ``weights`` [samples, resamples]; shared by all signals."""

    weights: NDArray[np.uint8]

    @classmethod
    def of(cls, ids: ArrayLike, seed: int, resamples: int = 1000) -> Resamples:
        """The resamples of these sample ids under a seed; the order of the ids does not matter."""
        return cls(poisson_weights(ids, seed, resamples))

    @property
    def count(self) -> int:
        """The number of resamples."""
        return int(self.weights.shape[1])

    @cached_property
    def totals(self) -> NDArray[np.int64]:
        """The number of draws in each resample, [resamples]."""
        return np.asarray(self.weights.sum(axis=0, dtype=np.int64))

    @cached_property
    def _single(self) -> NDArray[np.float32]:
        return self.weights.astype(np.float32)

    @cached_property
    def _double(self) -> NDArray[np.float64]:
        return self.weights.astype(np.float64)

    def exact(self, largest: int) -> NDArray[Any]:
        """The weights as floats in which sums of up to ``largest`` per draw stay exact, [samples, resamples]."""
        return self._single if largest * int(self.totals.max()) < EXACT_IN_FLOAT32 else self._double

    def take(self, rows: Rows) -> Resamples:
        """The same resamples, seen on the samples at ``rows`` only."""
        return Resamples(self.weights[rows])

    def sums(self, worth: NDArray[Any]) -> NDArray[np.float64]:
        """Weighted sums of whole numbers ``worth`` [..., samples], as [..., resamples]."""
        weights = self.exact(max(1, int(np.abs(worth).max(initial=0))))
        return np.asarray(worth.astype(weights.dtype) @ weights, dtype=np.float64)


def node_points(ends: NDArray[np.int64]) -> NDArray[np.int64]:
    """The points that carry sums, ascending, with the first and the last among them.

    Between neighbouring nodes lie few events, or no point at all (a large group of equal certainties).
    """
    points = len(ends)
    if points <= NODES:
        return np.arange(points)
    stretch = -(-int(ends[-1]) // NODES)
    block = ends // stretch
    last_of_block = np.flatnonzero(np.append(block[1:] != block[:-1], True))
    after_a_leap = np.flatnonzero(np.diff(ends) > stretch) + 1
    return np.unique(np.concatenate([[0], last_of_block, after_a_leap]))


@dataclass(frozen=True, eq=False)
class RunningSums:
    """One weighted sum over samples at every point of every resample.

    ``start`` [resamples] is its value before any event; event j adds ``change[j]`` times the weight of
    ``samples[j]``. Point k has seen ``ends[k]`` events.
    """

    samples: NDArray[np.int32]
    change: Changes
    ends: NDArray[np.int64]
    nodes: NDArray[np.int64]
    start: NDArray[np.float64]
    weights: NDArray[Any]

    @cached_property
    def at_nodes(self) -> NDArray[Any]:
        """The sums at the nodes, [nodes, resamples]."""
        moving = np.flatnonzero(self.change)
        stops = np.searchsorted(moving, self.ends[self.nodes])
        matrix = csr_array(
            (
                self.change[moving].astype(self.weights.dtype),
                self.samples[moving].astype(np.int32),
                np.concatenate([[0], stops]).astype(np.int32),
            ),
            shape=(len(self.nodes), len(self.weights)),
        )
        sums: NDArray[Any] = matrix @ self.weights
        sums[0] += self.start.astype(sums.dtype)
        return np.cumsum(sums, axis=0, out=sums)

    def at_points(self, points: NDArray[np.int64]) -> NDArray[np.float64]:
        """The sum of each resample at its own point, ``points`` [resamples]."""
        node = np.searchsorted(self.nodes, points, side="right") - 1
        first = self.ends[self.nodes[node]]
        _, added = self.stretch(first, self.ends[points])
        at_node = self.at_nodes[node, np.arange(len(points))].astype(np.float64)
        return np.asarray(at_node + added.sum(axis=1, dtype=np.float64))

    def stretch(self, first: NDArray[np.int64], stop: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """What each event of each resample's own stretch first..stop-1 adds, [resamples, longest]; 0 beyond the stop.

        The first array are the events' positions.
        """
        longest = int((stop - first).max(initial=0))
        events = first[:, None] + np.arange(longest)
        inside = events < stop[:, None]
        events = np.where(inside, events, 0)
        drawn = self.weights[self.samples[events], np.arange(len(first))[:, None]]
        return events, np.where(inside, self.change[events] * drawn, 0)
