"""Softmax regression: the linear head of smallest cross entropy, by L-BFGS over blocks of rows.

The convex problem is ``mean cross entropy + penalty / 2 ||W||^2`` over standardised columns, bias free, towards labels
or towards probabilities. It starts from zero and is solved to a small gradient, so that a fit is a function of its
rows alone; rows are read in blocks, so that memory holds a block and not the layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from exitbench.derive.descent import minimum
from exitbench.derive.kept_rows import KeptRows

Array = NDArray[np.float64]
Blocks = Callable[[], Iterator[Array]]
"""Gives the rows [samples, columns] from the first to the last, block by block, as often as it is called.

A block may be written over when the next is asked for.
"""

GRADIENT = 1e-7


class Targets(Protocol):
    """Wanted probabilities [samples, classes], of which some rows are read at a time."""

    @property
    def shape(self) -> tuple[Any, ...]: ...
    def __getitem__(self, rows: slice, /) -> Array: ...


@dataclass(frozen=True)
class LabelTargets:
    """Labels [samples] as probabilities, made for the rows that are asked for: with many classes they are large."""

    labels: NDArray[np.int64]
    classes: int

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.labels), self.classes

    def __getitem__(self, rows: slice, /) -> Array:
        return np.eye(self.classes)[self.labels[rows]]


def kept_if_small(read: Blocks, elements: int, most: int = 2**24) -> Blocks:
    """The same blocks, held in memory where they have at most ``most`` elements (128 MB): they are read many times."""
    if elements > most:
        return read
    held = [block.copy() for block in read()]
    return lambda: iter(held)


def softmax_head(read: Blocks, targets: Targets, *, penalty: float) -> tuple[Array, Array]:
    """The weight [classes, columns] and bias [classes] that predict ``targets`` [samples, classes] best.

    A row of ``targets`` sums to 1. A column that never changes has weight 0.
    """
    mean, variance = moments(read)
    spread = np.sqrt(variance)
    spread[spread <= 1e-12 * (1.0 + np.abs(mean))] = np.inf  # a constant column says nothing
    columns, classes = len(mean), targets.shape[1]
    room = KeptRows()

    def objective(flat: Array) -> tuple[float, Array]:
        weight, bias = flat[:-classes].reshape(classes, columns), flat[-classes:]
        loss, slope, start = 0.0, np.zeros((classes, columns + 1)), 0
        for block in read():
            scaled = np.subtract(block, mean, out=room(*block.shape))
            scaled /= spread
            wanted = targets[start : start + len(block)]
            start += len(block)
            logs = log_softmax(scaled @ weight.T + bias)
            loss -= float((wanted * logs).sum())
            residual = np.exp(logs, out=logs)
            residual -= wanted
            slope[:, :-1] += residual.T @ scaled
            slope[:, -1] += residual.sum(axis=0)
        slope /= start
        slope[:, :-1] += penalty * weight
        total = loss / start + penalty / 2 * float((weight * weight).sum())
        return total, np.concatenate([slope[:, :-1].ravel(), slope[:, -1]])

    best = minimum(objective, np.zeros(classes * (columns + 1)), gradient=GRADIENT)
    weight = best[:-classes].reshape(classes, columns) / spread
    return weight, best[-classes:] - weight @ mean


def moments(read: Blocks) -> tuple[Array, Array]:
    """The mean and the variance of every column, [columns] each."""
    rows, total = 0, np.zeros(())
    for block in read():
        rows, total = rows + len(block), total + block.sum(axis=0)
    mean = np.asarray(total / rows)
    squares, room = np.zeros_like(mean), KeptRows()
    for block in read():
        away = np.subtract(block, mean, out=room(*block.shape))
        squares += np.square(away, out=away).sum(axis=0)
    return mean, squares / rows


def log_softmax(logits: Array) -> Array:
    """The logarithm of the softmax of every row."""
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)))
