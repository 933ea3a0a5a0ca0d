"""Premature and delayed rates when every resample has a threshold of its own.

At one layer, ``all`` counts certainties above the bar. ``reached`` counts running extremes: a sample has left before
layer m exactly when the extreme up to m - 1 is above the bar. So both are weighted counts of "above the bar" by layer.
The bars of the resamples lie close together: whoever is above all of them is counted by one product, whoever is below
all of them not at all, and only the few in between are put in order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from benchmarks.events import passed
from benchmarks.rates import Decisions, RateTally, check_decisions
from benchmarks.resamples import Resamples
from benchmarks.scores import SignalScores
from benchmarks.task_score import Outcomes

Kinds = tuple[NDArray[np.bool_], NDArray[np.bool_]]


def resampled_rates(
    scores: SignalScores,
    outcomes: Outcomes,
    resamples: Resamples,
    thresholds: ArrayLike,
    decisions: Decisions = "all",
) -> RateTally:
    """The decisions by layer at a threshold, or at each resample's own, as sums of weights [layers - 1, resamples]."""
    check_decisions(decisions)
    bars = np.broadcast_to(scores.sign * np.asarray(thresholds, dtype=np.float64), (resamples.count,))
    right = outcomes.correct[:-1]
    decided_right = resamples.sums(right)
    decided_wrong = resamples.totals - decided_right
    first = scores.first_exit_layer - 1
    exits_wrong, exits_right = np.zeros((2, *decided_wrong.shape))
    if decisions == "all":
        kinds = (~right[first:], right[first:])
        exits_wrong[first:], exits_right[first:] = _above(
            scores.permitted, kinds, bars, resamples, strict=scores.strict
        )
    elif len(scores.running):
        here = _above(scores.running, (~right[first:], right[first:]), bars, resamples, strict=scores.strict)
        before = _above(
            scores.running[:-1], (~right[first + 1 :], right[first + 1 :]), bars, resamples, strict=scores.strict
        )
        exits_wrong[first:], exits_right[first:] = here
        for exits, decided, left in zip(
            (exits_wrong, exits_right), (decided_wrong, decided_right), before, strict=True
        ):
            exits[first + 1 :] -= left
            decided[first + 1 :] -= left
    return RateTally(exits_wrong, decided_wrong, decided_right - exits_right, decided_right)


def _above(
    certainty: NDArray[np.float64], kinds: Kinds, bars: NDArray[np.float64], resamples: Resamples, *, strict: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The weight above the bar for each kind of sample, ``kinds`` [layers, samples] each, as [layers, resamples]."""
    passes = np.greater if strict else np.greater_equal
    always = passes(certainty, bars.max())
    between = passes(certainty, bars.min()) & ~always
    weights, columns = resamples.exact(1), np.arange(resamples.count)
    counts = resamples.sums(np.stack([always & kind for kind in kinds]).reshape(-1, certainty.shape[1]))
    counts = counts.reshape(2, len(certainty), resamples.count)
    for count, kind in zip(counts, kinds, strict=True):
        for layer in range(len(certainty)):
            some = np.flatnonzero(between[layer] & kind[layer])
            some = some[np.argsort(-certainty[layer, some])]
            running = np.zeros((len(some) + 1, resamples.count), dtype=weights.dtype)
            np.cumsum(weights[some], axis=0, out=running[1:])
            count[layer] += running[passed(certainty[layer, some], bars, strict=strict), columns]
    return counts[0], counts[1]
