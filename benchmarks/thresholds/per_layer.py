"""Thresholds of each layer's own for a service: the same question as with a shared one, answered by other fits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from exitbench.benchmarks.guarantees.candidates import storable
from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.protocols.part_result import ResampledPoint
from exitbench.benchmarks.protocols.per_layer_points import FITS, part_thresholds, per_layer_point
from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.run.evaluated_configurations import cache_weights
from exitbench.benchmarks.suites.questions import NO_PER_LAYER
from exitbench.benchmarks.thresholds.evaluated_grid import EvaluatedGrid
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.exit_policy import Threshold

SPEED_UPS = 25
"""How many speed-ups are tried for a largest loss."""


def require_continuous(signals: Sequence[ExitSignal], depth: int) -> None:
    """Raise InputError for a signal that has whole thresholds only."""
    for signal in signals:
        if signal.thresholds.values(depth) is not None:
            raise InputError(
                f"per-layer thresholds are for continuous ones, found signal {signal.text}; {NO_PER_LAYER}"
            )


def grid_curves(grid: EvaluatedGrid) -> list[PartCurves]:
    """The curves of every usable configuration; an InputError for one that has whole thresholds only."""
    weights = cache_weights(grid.scored, grid.questions)
    require_continuous(grid.usable, grid.cache.layers)
    return [PartCurves(grid.scored, number, weights, grid.questions.every_speed_up) for number in grid.numbers]


def per_layer(grid: EvaluatedGrid, protocol: str, point: OperatingPoint, schedule: Schedule) -> ResampledPoint:
    """What is to be expected at a speed-up under a protocol."""
    weights = cache_weights(grid.scored, grid.questions).all("test")
    return per_layer_point(grid.merged[protocol], grid_curves(grid), point, weights, schedule)


def per_layer_thresholds(grid: EvaluatedGrid, point: OperatingPoint, schedule: Schedule) -> Threshold:
    """The thresholds that all samples give at a speed-up, none where nothing exits, as JSON has them."""
    merged = grid.merged["in-sample"]
    curves = grid_curves(grid)[int(merged.choices.at(point).parts[0])]
    (part,) = merged.parts
    thresholds = part_thresholds(curves, part, schedule, point.number, merged.samples.measure)
    finite = storable(thresholds, curves.scores(part.variant, "test"))
    return [None if np.isinf(level) else float(level) for level in finite]


def largest_speed_up(grid: EvaluatedGrid, point: OperatingPoint, schedule: Schedule) -> float:
    """The last of a row of speed-ups before the loss on all samples first exceeds that of ``point``.

    With the configuration that a shared threshold would have for that loss.
    """
    merged = grid.merged["in-sample"]
    (part,) = merged.parts
    curve = grid_curves(grid)[int(merged.choices.at(point).parts[0])].whole(part.variant, "test")
    measure, outcomes = merged.samples.measure, merged.samples.outcomes
    floor = float(curve.final.score(measure)) - point.number - ROUNDING
    best = 1.0
    for cost in np.linspace(1.0, curve.cost_range[0], SPEED_UPS + 1)[1:]:
        tally = tally_at(FITS[schedule](curve, 1 / cost, measure), outcomes)
        if float(tally.score(measure)) < floor:
            break
        best = float(tally.speed_up)
    if best == 1.0:
        raise InputError(f"no speed-up within a loss of {point.number:g} points: the first exits already lose more")
    return best
