"""Premature and delayed exits in every resample: decisions weighted by how often their sample was drawn.

Each resample has its own threshold, but thresholds of resamples lie close together: what exits under all of them, or
under none, is summed once for all, and only what lies between is looked at resample by resample.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.measures.exit_rates import RateTally
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.benchmarks.statistics.resampled_curves import SampleWeights, weighted_sums


def weighted_decisions(outcomes: Outcomes, drawn: SampleWeights) -> NDArray[np.float64]:
    """Decisions of kind ``all`` on wrong and on right predictions, whatever the signal, [2, layers - 1, resamples]."""
    right = outcomes.correct[:-1, drawn.samples]
    return drawn.times(np.stack([~right, right]).astype(np.float32)).astype(np.float64)


def weighted_rates(
    scores: SignalScores,
    outcomes: Outcomes,
    thresholds: NDArray[np.float64],
    index: NDArray[np.int64],
    drawn: SampleWeights,
    decisions: NDArray[np.float64] | None = None,
) -> RateTally:
    """Decisions of kind ``all`` with the threshold ``thresholds[index[b]]`` in resample b, [layers - 1, resamples].

    ``thresholds`` are those of the listed points, from the most cautious on; only the drawn samples are counted.
    ``decisions`` are :func:`weighted_decisions` where the caller has them already.
    """
    low, high = int(index.min()), int(index.max())
    uncertainty_thresholds = -scores.sign * thresholds[low : high + 1]
    side: Literal["left", "right"] = "right" if scores.strict else "left"
    first = scores.first_exit_layer - 1
    right, certainty = outcomes.correct[first:-1, drawn.samples], scores.permitted[:, drawn.samples]
    cell = (
        np.searchsorted(uncertainty_thresholds, -certainty.ravel(), side=side).reshape(certainty.shape).astype(np.int32)
    )
    cell[certainty == -np.inf] = len(uncertainty_thresholds)  # a layer without a score never says exit
    always = cell == 0
    exits = np.zeros((2, outcomes.depth - 1, drawn.resamples))
    sure = np.stack([always & ~right, always & right])
    last = (index - low).astype(np.int32)
    for samples, weights in drawn.blocks():
        exits[:, first:] += sure[..., samples].astype(np.float32) @ weights
        for layer, (cells, truths) in enumerate(zip(cell[:, samples], right[:, samples], strict=True)):
            sometimes = np.flatnonzero((cells > 0) & (cells < len(uncertainty_thresholds)))
            if len(sometimes):
                counted = weights[sometimes]
                counted *= cells[sometimes, None] <= last
                truth = truths[sometimes]
                exits[:, first + layer] += np.stack([~truth, truth]).astype(np.float32) @ counted
    wrong, rights = weighted_decisions(outcomes, drawn) if decisions is None else decisions
    return RateTally(exits[0], wrong, rights - exits[1], rights)


def reached_tally(
    curve: Curve, event_indices: NDArray[np.int64], index: NDArray[np.int64], drawn: SampleWeights
) -> RateTally:
    """Decisions of kind ``reached`` over all layers, [resamples]; resample b at ``event_indices[index[b]]``."""
    low, high = int(index.min()), int(index.max())
    right = curve.outcomes.correct
    right_decisions = np.cumsum(right, axis=0, dtype=np.int16)
    right_decisions[-1] = right_decisions[-2]
    decisions = np.minimum(np.arange(1, curve.depth + 1), curve.depth - 1).astype(np.int16)[:, None]
    exits_right, exits_wrong = right.astype(np.int8), (~right).astype(np.int8)
    exits_right[-1] = exits_wrong[-1] = 0
    columns = np.arange(len(index))

    quantities = [exits_wrong, decisions - right_decisions, exits_right, right_decisions]
    sums = weighted_sums(curve, event_indices[low : high + 1], quantities, drawn)
    wrong_exits, on_wrong, right_exits, on_right = sums[:, index - low, columns].astype(np.float64)
    return RateTally(wrong_exits, on_wrong, on_right - right_exits, on_right)
