"""What methods read from the cache that they are fitted on: features in blocks, logits and targets in float64."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from exitbench.cache import Cache
from exitbench.derive.softmax_regression import Blocks, kept_if_small, log_softmax, one_hot

Array = NDArray[np.float64]

BLOCK = 4096
"""Rows that are in float64 at a time."""


def feature_blocks(cache: Cache, layer: int) -> Blocks:
    """The features of one layer in float64, in the order of the cache."""

    def read() -> Iterator[Array]:
        for rows in cache.blocks(BLOCK):
            yield cache.features(layer, rows).double().cpu().numpy()

    return kept_if_small(read, cache.rows * (cache.widths[layer - 1] or 0))


def logits64(cache: Cache, layer: int) -> Array:
    """The logits of one layer, [samples, classes]."""
    return cache.logits(layer).double().cpu().numpy()


def label_targets(cache: Cache) -> Array:
    """The labels as probabilities, [samples, classes]."""
    return one_hot(cache.labels, cache.classes)


def last_layer_targets(cache: Cache, temperature: float = 1.0) -> Array:
    """The last layer's probabilities, [samples, classes], which need no label."""
    return np.exp(log_softmax(logits64(cache, cache.layers) / temperature))
