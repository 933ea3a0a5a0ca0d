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
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights
from exitbench.benchmarks.statistics.resampling.weighted_sums import (
    ExitQuantity,
    count_quantity,
    layer_quantity,
    weighted_sums,
)


def weighted_rates(
    scores: SignalScores,
    outcomes: Outcomes,
    thresholds: NDArray[np.float64],
    index: NDArray[np.int64],
    drawn: SampleWeights,
    decisions: NDArray[np.float64],
) -> RateTally:
    """Decisions of kind ``all`` with the threshold ``thresholds[index[b]]`` in resample b, [layers - 1, resamples].

    ``thresholds`` are those of the listed points, from the most cautious on; only the drawn samples are counted.
    ``decisions`` [2, layers - 1, resamples] are those on wrong and on right predictions, whatever the signal.
    """
    low, high = int(index.min()), int(index.max())
    uncertainty_thresholds = -scores.sign * thresholds[low : high + 1]
    side: Literal["left", "right"] = "right" if scores.strict else "left"
    first = scores.first_exit_layer - 1
    right, certainty = outcomes.correct[first:-1], scores.permitted
    exits = np.zeros((2, outcomes.depth - 1, drawn.resamples))
    last = (index - low).astype(np.int32)
    for samples, weights in drawn.blocks():
        rows = drawn.rows_of(samples)
        certainties, truths = certainty[:, rows], right[:, rows]
        cells = np.searchsorted(uncertainty_thresholds, -certainties.ravel(), side=side).reshape(certainties.shape)
        cells[certainties == -np.inf] = len(uncertainty_thresholds)  # a layer without a score never says exit
        always = cells == 0
        exits[:, first:] += np.stack([always & ~truths, always & truths]).astype(np.float32) @ weights
        for layer, (cell, truth) in enumerate(zip(cells.astype(np.int32), truths, strict=True)):
            sometimes = np.flatnonzero((cell > 0) & (cell < len(uncertainty_thresholds)))
            if len(sometimes):
                counted = weights[sometimes]
                counted *= cell[sometimes, None] <= last
                kind = truth[sometimes]
                exits[:, first + layer] += np.stack([~kind, kind]).astype(np.float32) @ counted
    wrong, rights = decisions
    return RateTally(exits[0], wrong, rights - exits[1], rights)


def reached_tally(
    curve: Curve, event_indices: NDArray[np.int64], index: NDArray[np.int64], drawn: SampleWeights
) -> RateTally:
    """Decisions of kind ``reached`` over all layers, [resamples]; resample b at ``event_indices[index[b]]``."""
    low, high = int(index.min()), int(index.max())
    layers, outcomes = np.arange(1, curve.depth + 1), curve.outcomes
    last = curve.depth - 1
    quantities = [
        layer_quantity(curve, (layers <= last).astype(np.int64)),
        layer_quantity(curve, np.minimum(layers, last)),
        ExitQuantity(
            curve.right_exit_changes.__getitem__,
            lambda exits, samples: outcomes.correct[exits - 1, samples] & (exits <= last),
        ),
        count_quantity(curve.right_decision_changes, outcomes.right_so_far, last),
    ]
    sums = weighted_sums(curve, event_indices[low : high + 1], quantities, drawn)
    exits, decided, right_exits, rights = sums[:, index - low, np.arange(len(index))].astype(np.float64)
    return RateTally(exits - right_exits, decided - rights, rights - right_exits, rights)
