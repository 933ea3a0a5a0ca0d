"""What methods read from the cache that they are fitted on: features, logits and targets in float64, in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from exitbench.cache import Cache
from exitbench.derive.kept_rows import KeptRows
from exitbench.derive.softmax_regression import Blocks, LabelTargets, kept_if_small, log_softmax

Array = NDArray[np.float64]

BLOCK = 4096
"""Rows that are in float64 at a time."""


def feature_blocks(cache: Cache, layer: int) -> Blocks:
    """The features of one layer in float64, in the order of the cache."""

    def read() -> Iterator[Array]:
        room = KeptRows()
        for rows in cache.blocks(BLOCK):
            stored = cache.features(layer, rows)
            block = room(*stored.shape)
            torch.from_numpy(block).copy_(stored)
            yield block

    return kept_if_small(read, cache.rows * (cache.widths[layer - 1] or 0))


def stored_logit_blocks(cache: Cache, layers: Sequence[int]) -> Blocks:
    """The logits of some layers in float64, [layers, samples, classes] a block, in the order of the cache."""

    def read() -> Iterator[Array]:
        for rows in cache.blocks(BLOCK):
            yield np.stack([cache.logits(layer, rows).double().cpu().numpy() for layer in layers])

    return kept_if_small(read, len(layers) * cache.rows * cache.classes)


def label_targets(cache: Cache) -> LabelTargets:
    """The labels as probabilities, [samples, classes]."""
    return LabelTargets(cache.labels, cache.classes)


def last_layer_targets(cache: Cache, temperature: float = 1.0) -> Array:
    """The last layer's probabilities, [samples, classes], which need no label."""
    wanted, start = np.empty((cache.rows, cache.classes)), 0
    for rows in cache.blocks(BLOCK):
        logits = cache.logits(cache.layers, rows).double().cpu().numpy() / temperature
        wanted[start : start + len(logits)] = np.exp(log_softmax(logits))
        start += len(logits)
    return wanted
