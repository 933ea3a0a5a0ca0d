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
from exitbench.signals.contract.layer import FeatureRows, Layer

Array = NDArray[np.float64]
Packed = tuple[str, tuple[int, ...], str]
"""Type, shape and bytes of an array."""

BLOCK = 4096
"""Rows that are in float64 at a time."""
NEAR = 1 << 17
"""The most numbers that a distance passes over at a time, 1 MB: they stay near the processor for a thousand points."""


def require_features(signal: str, layer: Layer) -> Tensor:
    """The layer's features as they are stored, [samples, width]; an InputError where there are none."""
    if layer.features is None:
        raise InputError(f"layer {layer.index}: signal {signal} needs features, and this input has none")
    return layer.features


def require_rows(signal: str, layer: Layer) -> FeatureRows:
    """The layer's features [samples, width] to be read block by block; an InputError where there are none."""
    rows = layer.feature_rows
    return require_features(signal, layer) if rows is None else rows


def blocks(features: FeatureRows) -> Iterator[tuple[slice, Array]]:
    """The rows in float64, block by block, each with where it lies."""
    for rows in block_slices(features):
        yield rows, features[rows].double().cpu().numpy()


def block_slices(features: FeatureRows) -> Iterator[slice]:
    """Where each block of rows lies."""
    for start in range(0, len(features), BLOCK):
        yield slice(start, min(start + BLOCK, len(features)))


def members(groups: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.intp]]]:
    """Each group that occurs, rising, with its positions, rising: of a thousand classes most have no row in a block."""
    order = np.argsort(groups, kind="stable")
    ends = np.flatnonzero(np.diff(groups[order], append=groups[order[-1:]] + 1)) + 1
    for positions in np.split(order, ends[:-1]) if len(groups) else ():
        yield int(groups[positions[0]]), positions


def class_means(features: FeatureRows, groups: NDArray[np.int64], classes: int) -> tuple[Array, NDArray[np.int64]]:
    """The mean feature of each group [classes, width] and its size [classes]; a group below 0 is nobody's.

    A class without rows has the mean of all rows that have a class.
    """
    sums = np.zeros((classes, features.shape[1]))
    counts = np.zeros(classes, dtype=np.int64)
    for rows, values in blocks(features):
        for number, chosen in members(groups[rows]):
            if 0 <= number < classes:
                sums[number] += values[chosen].sum(axis=0)
                counts[number] += len(chosen)
    everyone = sums.sum(axis=0) / max(int(counts.sum()), 1)
    means = np.where(counts[:, None] > 0, sums / np.maximum(counts, 1)[:, None], everyone)
    return means, counts


def second_moment(features: FeatureRows, shifts: Array, groups: NDArray[np.int64] | None = None) -> Array:
    """The sum over rows of ``(x + s)(x + s)^T`` [width, width]; s is one shift, or that of the row's group."""
    total = np.zeros((features.shape[1], features.shape[1]))
    for rows, values in blocks(features):
        shifted = values + (shifts if groups is None else shifts[groups[rows]])
        total += shifted.T @ shifted
    return total


def evenly(rows: int, most: int) -> NDArray[np.int64]:
    """At most ``most`` of some rows, evenly from the first to the last: what is kept where all would be too many."""
    return np.unique(np.linspace(0, rows - 1, min(rows, most)).astype(np.int64))


def principal_directions(features: FeatureRows, most: int) -> tuple[Array, Array]:
    """The mean [width] and the ``most`` directions of largest variance [width, at most that], scaled to variance 1.

    A direction's sign is that of its largest entry, so that it does not depend on the library's choice.
    """
    from scipy.linalg import eigh

    few = len(features) < features.shape[1]  # the smaller of the two matrices of products has the same spectrum
    if few:
        values = features[:].double().cpu().numpy()
        mean = values.mean(axis=0)
        centred = values - mean
        products = centred @ centred.T
    else:
        mean = class_means(features, np.zeros(len(features), dtype=np.int64), 1)[0][0]
        products = second_moment(features, -mean)
    size = len(products)
    spectrum, vectors = eigh(products, subset_by_index=(max(size - most, 0), size - 1))
    kept = spectrum > 1e-10 * max(float(spectrum[-1]), 1e-300)
    spectrum, vectors = spectrum[kept], vectors[:, kept]
    if few:
        vectors = centred.T @ vectors / np.sqrt(spectrum)
    variances = spectrum / len(features)
    signs = np.sign(vectors[np.abs(vectors).argmax(axis=0), np.arange(vectors.shape[1])])
    return mean, vectors * signs / np.sqrt(variances)


def projected(features: FeatureRows, mean: Array, basis: Array) -> Array:
    """The features less their mean in some directions, [samples, directions], block by block."""
    return np.concatenate([(values - mean) @ basis for _, values in blocks(features)])


def by_class(columns: Array, answers: NDArray[np.int64], classes: int) -> Array:
    """The columns [samples, k] once for each class, 0 where another class was predicted: [samples, classes * k]."""
    spread = np.zeros((len(columns), classes, columns.shape[1]))
    spread[np.arange(len(columns)), answers] = columns
    return spread.reshape(len(columns), -1)


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
    values, points = features.double(), points.to(features.device)
    distances = values.new_empty((len(values), len(points)))
    together = max(NEAR // values.shape[1], 1)
    for start in range(0, len(values), together):
        some = values[start : start + together]
        for number, point in enumerate(points):
            apart = some - point
            distances[start : start + together, number] = apart.mul_(apart).sum(dim=1)
    return distances


def lengths(values: Tensor) -> Tensor:
    """The Euclidean norm of each row, [samples]."""
    return values.square().sum(dim=1).sqrt()
