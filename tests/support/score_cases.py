"""Small random cases with everything that can go wrong, and literal loops that say what should come out."""

from __future__ import annotations

import math
import operator
from dataclasses import dataclass

import numpy as np

from exitbench.benchmarks.replay.trade_off_curve import Curve, trade_off_curve
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.signal_scores import SignalScores

RELATIONS = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}


@dataclass
class Case:
    scores: SignalScores
    outcomes: Outcomes
    predictions: np.ndarray
    labels: np.ndarray

    @property
    def curve(self) -> Curve:
        return trade_off_curve(self.scores, self.outcomes)


def random_case(seed: int, *, samples: int | None = None, integers: bool = False) -> Case:
    """A case with ties and duplicates; sometimes one class is missing, everything is right, or everything is wrong."""
    rng = np.random.default_rng(seed)
    depth = int(rng.integers(2, 7))
    n = int(rng.integers(1, 14)) if samples is None else samples
    labels = rng.integers(0, 2, n) if seed % 5 else np.full(n, rng.integers(0, 2))
    skill = rng.random((depth, n)) < rng.uniform(0.3, 0.95)
    if seed % 7 == 1:
        skill[:] = True
    if seed % 7 == 2:
        skill[:] = False
    predictions = np.where(skill, labels, 1 - labels)
    distinct = int(rng.integers(1, 12))
    values = rng.integers(0, distinct, (depth - 1, n)).astype(float)
    if seed % 3 == 0:
        values = rng.normal(size=values.shape)
    if n > 2 and seed % 4 == 0:
        values[:, 1] = values[:, 0]
    first_scored = int(rng.integers(1, depth))
    first_exit = int(rng.integers(first_scored, depth + 1))
    values[: first_scored - 1] = np.nan
    direction = ("<", "<=", ">", ">=")[seed % 4]
    allowed = range(1, 1 + int(rng.integers(1, 6))) if integers else None
    if integers:
        values = np.round(values)
    scores = SignalScores(values, direction, first_exit, first_scored, allowed, "made-up")
    return Case(scores, Outcomes.of(predictions, labels, positive_class=1), predictions, labels)


def literal_exits(scores: SignalScores, threshold: float) -> list[int]:
    """The first permitted internal layer that passes, else the last layer, sample by sample."""
    passes, depth = RELATIONS[scores.direction], len(scores.values) + 1
    exits = []
    for sample in range(scores.values.shape[1]):
        layer = depth
        for candidate in range(depth - 1, 0, -1):
            if candidate >= scores.first_exit_layer and passes(scores.values[candidate - 1, sample], threshold):
                layer = candidate
        exits.append(layer)
    return exits


def literal_outcomes(scores: SignalScores) -> list[tuple[int, ...]]:
    """Every distinct vector of exits over all thresholds, from the most cautious on."""
    seen = scores.values[scores.first_exit_layer - 1 :].ravel()
    if scores.integers is not None:
        thresholds = [float(value) for value in scores.integers]
    else:
        around = [
            value for score in seen for value in (np.nextafter(score, -np.inf), score, np.nextafter(score, np.inf))
        ]
        thresholds = sorted({-math.inf, math.inf, *around})
    if scores.direction in (">", ">="):
        thresholds = sorted(thresholds, reverse=True)
    outcomes = [tuple(literal_exits(scores, threshold)) for threshold in thresholds]
    if scores.integers is not None:
        return outcomes
    return [outcome for position, outcome in enumerate(outcomes) if position == 0 or outcome != outcomes[position - 1]]


def literal_tally(case: Case, exits: list[int] | tuple[int, ...]) -> dict[str, int]:
    """Counts of the merged predictions, one sample at a time."""
    counts = {
        "samples": 0,
        "layers": 0,
        "correct": 0,
        "true_positives": 0,
        "predicted_positives": 0,
        "actual_positives": 0,
    }
    for sample, layer in enumerate(exits):
        predicted, true = case.predictions[layer - 1, sample], case.labels[sample]
        counts["samples"] += 1
        counts["layers"] += layer
        counts["correct"] += int(predicted == true)
        counts["true_positives"] += int(predicted == 1 and true == 1)
        counts["predicted_positives"] += int(predicted == 1)
        counts["actual_positives"] += int(true == 1)
    return counts


def literal_rates(case: Case, threshold: float, decisions: str) -> list[tuple[int, int, int, int]]:
    """Per internal layer: wrong exits, wrong decisions, right continuations, right decisions."""
    passes = RELATIONS[case.scores.direction]
    exits = literal_exits(case.scores, threshold)
    counted = []
    for layer in range(1, case.scores.depth):
        row = [0, 0, 0, 0]
        for sample in range(len(exits)):
            if decisions == "reached" and layer > exits[sample]:
                continue
            permitted = layer >= case.scores.first_exit_layer
            leaves = permitted and passes(case.scores.values[layer - 1, sample], threshold)
            if case.predictions[layer - 1, sample] == case.labels[sample]:
                row[2] += int(not leaves)
                row[3] += 1
            else:
                row[0] += int(leaves)
                row[1] += 1
        counted.append((row[0], row[1], row[2], row[3]))
    return counted
