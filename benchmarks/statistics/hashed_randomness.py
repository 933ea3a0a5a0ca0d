"""Randomness that belongs to a sample: every draw is a function of (seed, sample id, stream), never of row order.

A 64-bit finaliser (Stafford's variant 13, the mixing step of SplitMix64) is applied once per ingredient, so
that neighbouring seeds, ids and streams give unrelated words. Folds, bootstrap weights and anything else
random in this package come from here: permuting, sharding or subsetting the samples changes no draw.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from exitbench.benchmarks.arrays.roomy_array import empty
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.errors import InputError

FOLD_STREAM = 0x666F6C64
WEIGHT_STREAM = 0x77656967
"""Separates what folds draw from what resamples draw under one seed."""

BLOCK = 128
"""Samples hashed at once, so that their words stay near the processor."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = 1 << 64


def _mix(words: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The SplitMix64 finaliser, in place on a fresh array."""
    words += _GOLDEN
    words ^= words >> np.uint64(30)
    words *= np.uint64(0xBF58476D1CE4E5B9)
    words ^= words >> np.uint64(27)
    words *= np.uint64(0x94D049BB133111EB)
    words ^= words >> np.uint64(31)
    return words


def hash64(seed: int, ids: ArrayLike, stream: ArrayLike) -> NDArray[np.uint64]:
    """One 64-bit word per sample, [samples], or per sample and stream, [samples, streams].

    ``ids`` [samples] are integers; ``stream`` is one integer or [streams] of them, at least 0.

    >>> hash64(0, [7, 3], 5).tolist() == hash64(0, [3, 7], 5).tolist()[::-1]
    True
    """
    start = _mix(np.full(1, seed % _WORD, dtype=np.uint64))
    samples = _mix(np.asarray(ids, dtype=np.int64).astype(np.uint64) ^ start)
    streams = _mix(np.atleast_1d(np.asarray(stream, dtype=np.int64)).astype(np.uint64))
    words = _mix(samples[:, None] ^ streams[None, :])
    return words[:, 0] if np.ndim(stream) == 0 else words


def folds(ids: ArrayLike, seed: int, k: int = 5) -> NDArray[np.int64]:
    """The fold of each sample, [samples] in 0..k-1, from a hash of its id; labels play no part."""
    if k < 2:
        raise InputError(f"cross-fitting needs at least 2 folds, found {k}")
    return (sample_words(seed, ids, FOLD_STREAM) % np.uint64(k)).astype(np.int64)


def sample_words(seed: int, ids: ArrayLike, stream: int) -> NDArray[np.uint64]:
    """The word of each sample, [samples], some samples at a time: those of different samples differ."""
    samples = np.asarray(ids, dtype=np.int64)
    words: NDArray[np.uint64] = empty(len(samples), np.uint64)
    for some in element_blocks(len(samples)):
        words[some] = hash64(seed, samples[some], stream)
    return words


def _poisson_table() -> NDArray[np.uint8]:
    """The Poisson(1) quantile at the 65,536 midpoints of a 16-bit word: the law in steps of 2^-16."""
    law = np.cumsum([math.exp(-1.0) / math.factorial(k) for k in range(12)])
    return np.searchsorted(law, (np.arange(1 << 16) + 0.5) / (1 << 16)).astype(np.uint8)


_POISSON: NDArray[np.uint8] = _poisson_table()


def poisson_weights(ids: ArrayLike, seed: int, resamples: int = 1000) -> NDArray[np.uint8]:
    """Poisson bootstrap weights [samples, resamples]: how often each sample is drawn in each resample.

    Independent Poisson(1) counts, the order-free form of drawing n samples with replacement: given its
    total, such a vector of counts is exactly the multinomial one. The total itself varies by about
    sqrt(n), so whoever uses the weights divides by it. Four resamples share one 64-bit word, 16 bits each.
    """
    if resamples < 2:
        raise InputError(f"a bootstrap needs at least 2 resamples, found {resamples}")
    streams = WEIGHT_STREAM + np.arange(-(-resamples // 4), dtype=np.int64)
    samples = np.asarray(ids, dtype=np.int64)
    weights = np.empty((len(samples), resamples), dtype=np.uint8)
    for start in range(0, len(samples), BLOCK):
        rows = slice(start, start + BLOCK)
        words = hash64(seed, samples[rows], streams).astype("<u8", copy=False).view("<u2")
        weights[rows] = _POISSON[words[:, :resamples]]
    return weights
