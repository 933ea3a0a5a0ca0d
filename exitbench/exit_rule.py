"""The exit rule: a sample exits at the first permitted layer whose score passes the threshold, else at the last layer.

The replay of a cache, the conformance checks and the tests of live inference all mean this rule. It lies below the
rooms that share it and needs no torch, which the processes that only measure never load.
"""

import operator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Direction = Literal["<", "<=", ">", ">="]
"""A sample exits when its score stands in this relation to the threshold."""

PASSES = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
"""The comparison of score with threshold behind each direction."""


def exits(
    scores: NDArray[np.float64], direction: Direction, first_exit_layer: int, threshold: float
) -> NDArray[np.int64]:
    """The layer at which each sample exits, [samples], from its scores [layers - 1, samples]. A NaN never passes.

    >>> scores = np.array([[0.9, 0.2], [0.1, 0.8]])
    >>> exits(scores, "<", 1, 0.5).tolist()
    [2, 1]
    >>> exits(scores, "<", 2, 0.5).tolist()
    [2, 3]
    """
    internal, samples = scores.shape
    layers = np.full(samples, internal + 1, dtype=np.int64)
    for layer in range(internal, first_exit_layer - 1, -1):
        layers[PASSES[direction](scores[layer - 1], threshold)] = layer
    return layers
