"""What signals learn from features: sums over blocks of rows in float64, so that memory holds one block and no copy.

A fitted array travels as text (:func:`pack`): its type, shape and bytes in base64, exact to the last bit.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.errors import InputError
from exitbench.signals.contract.layer import Layer

Array = NDArray[np.float64]
Packed = tuple[str, tuple[int, ...], str]
"""Type, shape and bytes of an array."""

BLOCK = 4096
"""Rows that are in float64 at a time."""


def require_features(signal: str, layer: Layer) -> Tensor:
    """The layer's features as they are stored, [samples, width]; an InputError where there are none."""
    if layer.features is None:
        raise InputError(f"layer {layer.index}: signal {signal} needs features, and this input has none")
    return layer.features


def blocks(features: Tensor) -> Iterator[tuple[slice, Array]]:
    """The rows in float64, block by block, each with where it lies."""
    for start in range(0, len(features), BLOCK):
        rows = slice(start, min(start + BLOCK, len(features)))
        yield rows, features[rows].double().cpu().numpy()


def class_means(features: Tensor, groups: NDArray[np.int64], classes: int) -> tuple[Array, NDArray[np.int64]]:
    """The mean feature of each group [classes, width] and its size [classes]; a group below 0 is nobody's.

    A class without rows has the mean of all rows that have a class.
    """
    sums = np.zeros((classes, features.shape[1]))
    counts = np.zeros(classes, dtype=np.int64)
    for rows, values in blocks(features):
        for number in range(classes):
            chosen = groups[rows] == number
            sums[number] += values[chosen].sum(axis=0)
            counts[number] += int(chosen.sum())
    everyone = sums.sum(axis=0) / max(int(counts.sum()), 1)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], everyone)
    return means, counts


def second_moment(features: Tensor, shifts: Array, groups: NDArray[np.int64] | None = None) -> Array:
    """The sum over rows of ``(x + s)(x + s)^T`` [width, width]; s is one shift, or that of the row's group."""
    total = np.zeros((features.shape[1], features.shape[1]))
    for rows, values in blocks(features):
        shifted = values + (shifts if groups is None else shifts[groups[rows]])
        total += shifted.T @ shifted
    return total


def pack(values: NDArray[np.floating[Any]], dtype: str = "float64") -> Packed:
    """An array as text, rounded to ``dtype``."""
    rounded = np.ascontiguousarray(values, dtype=dtype)
    return dtype, tuple(map(int, rounded.shape)), base64.b64encode(rounded.tobytes()).decode("ascii")


def unpack(packed: Packed) -> Tensor:
    """The array of a text, in float64."""
    dtype, shape, text = packed
    return torch.from_numpy(np.frombuffer(base64.b64decode(text), dtype=dtype).reshape(shape).astype(np.float64))


def squared_distances(features: Tensor, points: Tensor) -> Tensor:
    """The squared distances of features [samples, width] to points [points, width]: [samples, points] float64."""
    values = features.double()
    return torch.stack([(values - point).square().sum(dim=1) for point in points.to(values.device)], dim=1)


def lengths(values: Tensor) -> Tensor:
    """The Euclidean norm of each row, [samples]."""
    return values.square().sum(dim=1).sqrt()
