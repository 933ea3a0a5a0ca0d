"""Exit quotas: per-layer thresholds that let a fixed share of the samples exit at each layer.

This is the budgeted protocol of multi-exit image classifiers. The quota of layer m is proportional to ``q^m``, and
its threshold is the score of the quota-th most certain sample that is still there. A small q exits early, a large one
late; bisection finds the q whose speed-up, by the costs of the layers, is the one asked for. No answer is looked at,
only scores.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.replay.exit_events import certainty_thresholds
from exitbench.benchmarks.scoring.signal_scores import SignalScores

LARGEST_LOG_RATIO = 60.0
"""The logarithm of q lies within plus and minus this: beyond, all samples exit at one layer."""

BISECTIONS = 60
"""Steps of the search for q; two ratios that are still apart then give the same exits."""


def quota_exits(scores: SignalScores, speed_up: float, costs: NDArray[np.int64]) -> NDArray[np.int64]:
    """The layer at which each sample exits under the quotas nearest to a speed-up, [samples] from 1.

    ``costs`` [layers] are the cumulative costs of exiting at each layer. Of two equally near, the faster one. Samples
    of one score exit together, so that a quota may be exceeded; the next layers then have less to give.
    """
    target = costs[-1] * scores.samples / speed_up

    def paid(exits: NDArray[np.int64]) -> int:
        return int(costs[exits - 1].sum())

    low, high = -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO
    candidates = [quotas_filled(scores, low), quotas_filled(scores, high)]
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        candidates.append(quotas_filled(scores, middle))
        total = paid(candidates[-1])
        if total == target:
            break
        low, high = (low, middle) if total > target else (middle, high)
    return min(candidates, key=lambda exits: (abs(paid(exits) - target), paid(exits)))


def quotas_filled(scores: SignalScores, log_ratio: float) -> NDArray[np.int64]:
    """The exits [samples] when each permitted layer takes its quota of the most certain samples that are left."""
    reached = exits_until(scores, log_ratio)
    exits = np.full(scores.samples, scores.depth, dtype=np.int64)
    left = np.arange(scores.samples)
    for row, until in enumerate(reached):
        quota = int(until) - (scores.samples - len(left))
        if quota <= 0 or scores.silent[scores.first_exit_layer - 1 + row]:  # nothing exits without a score
            continue
        certainty = scores.permitted[row, left]
        rank = len(left) - quota
        exiting = certainty >= np.partition(certainty, rank)[rank]
        exits[left[exiting]] = scores.first_exit_layer + row
        left = left[~exiting]
    return exits


def exits_until(scores: SignalScores, log_ratio: float) -> NDArray[np.int64]:
    """How many samples are to have exited by each permitted internal layer, [layers - first_exit_layer].

    Running totals are rounded, not single quotas, so that each quota is met within one sample and their sum exactly.
    """
    layers = np.arange(scores.first_exit_layer, scores.depth + 1, dtype=np.float64)
    logarithms = log_ratio * layers
    shares = np.exp(logarithms - logarithms.max())
    running = np.cumsum(shares[:-1]) / shares.sum()
    return np.asarray(np.rint(scores.samples * running), dtype=np.int64)


def thresholds_of_exits(scores: SignalScores, exits: NDArray[np.int64]) -> NDArray[np.float64]:
    """Thresholds [layers - 1] on the scale of the score that realise these exits [samples] on these samples.

    At each layer halfway between the least certain sample that exits there and the most certain one that stays; no
    sample can pass where none exits, and every one does where none stays.
    """
    thresholds = np.full(scores.depth - 1, np.inf)
    for layer in range(scores.first_exit_layer, scores.depth):
        certainty = scores.certainty[layer - 1]
        exiting, staying = certainty[exits == layer], certainty[exits > layer]
        if len(exiting):
            neighbours = np.array([exiting.min(), staying.max()]) if len(staying) else np.array([exiting.min()])
            thresholds[layer - 1] = certainty_thresholds(neighbours, np.array(1), strict=scores.strict)
    return scores.sign * thresholds
