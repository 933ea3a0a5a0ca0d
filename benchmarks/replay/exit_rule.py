"""Replay of exits at one threshold, by the literal rule.

The whole trade-off curve (``trade_off_curve``) must agree with this everywhere; so must live inference.
"""

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.exit_rule import exits


def exit_layers(scores: SignalScores, threshold: float) -> NDArray[np.int64]:
    """The layer at which each sample exits, [samples], from 1 to the depth.

    >>> import numpy as np
    >>> entropy = SignalScores(np.array([[0.6, 0.2], [0.3, 0.1]]), "<")
    >>> exit_layers(entropy, 0.3).tolist()
    [3, 1]
    """
    return exits(scores.values, scores.direction, scores.first_exit_layer, threshold)


def exit_histogram(exits_at: NDArray[np.int64], depth: int) -> NDArray[np.int64]:
    """How many samples exit at each layer, [layers]; entry 0 is layer 1."""
    return np.bincount(exits_at, minlength=depth + 1)[1:].astype(np.int64)
