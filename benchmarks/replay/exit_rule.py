"""Replay of exits at one threshold, or at one of each layer's own, by the literal rule.

The whole trade-off curve (``trade_off_curve``) must agree with this everywhere; so must live inference.
"""

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.arrays.roomy_array import empty
from exitbench.benchmarks.arrays.scratch_space import element_blocks
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.errors import InputError
from exitbench.exit_rule import PASSES, exits


def exit_layers(scores: SignalScores, threshold: float) -> NDArray[np.int64]:
    """The layer at which each sample exits, [samples], from 1 to the depth.

    >>> import numpy as np
    >>> entropy = SignalScores(np.array([[0.6, 0.2], [0.3, 0.1]]), "<")
    >>> exit_layers(entropy, 0.3).tolist()
    [3, 1]
    """
    layers: NDArray[np.int64] = empty(scores.samples, np.int64)
    for some in element_blocks(scores.samples):
        layers[some] = exits(scores.values[:, some], scores.direction, scores.first_exit_layer, threshold)
    return layers


def exit_histogram(exits_at: NDArray[np.int64], depth: int) -> NDArray[np.int64]:
    """How many samples exit at each layer, [layers]; entry 0 is layer 1."""
    return np.bincount(exits_at, minlength=depth + 1)[1:].astype(np.int64)


def per_layer_exits(scores: SignalScores, thresholds: NDArray[np.float64]) -> NDArray[np.int64]:
    """The same with a threshold of each internal layer's own, ``thresholds`` [layers - 1].

    >>> import numpy as np
    >>> entropy = SignalScores(np.array([[0.6, 0.2], [0.3, 0.1]]), "<")
    >>> per_layer_exits(entropy, np.array([0.1, 0.4])).tolist()
    [2, 2]
    """
    if thresholds.shape != (scores.depth - 1,) or np.isnan(thresholds).any():
        raise InputError(
            f"signal {scores.signal!r}: expected a threshold for each of {scores.depth - 1} internal layers, "
            f"found {thresholds.tolist()}"
        )
    exits_at: NDArray[np.int64] = empty(scores.samples, np.int64)
    passes = PASSES[scores.direction]
    for some in element_blocks(scores.samples):
        here = exits_at[some]
        here.fill(scores.depth)
        for layer in range(scores.depth - 1, scores.first_exit_layer - 1, -1):
            here[passes(scores.values[layer - 1, some], thresholds[layer - 1])] = layer
    return exits_at
