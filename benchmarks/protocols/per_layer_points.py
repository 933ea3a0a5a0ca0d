"""What sharing one threshold costs: an entry's operating points again with thresholds of each layer's own.

Both ways, exit quotas and a greedy search, are fitted on the training samples of a part and applied to its test
samples, with the parameters that the entry uses there; so only thresholds differ from the shared one. A resample does
not fit them again, which would take too long: intervals are those of the scored rows, given the thresholds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.merged_parts import MergedParts
from exitbench.benchmarks.protocols.part_curves import PartCurves
from exitbench.benchmarks.protocols.part_result import ResampledPoint
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.exit_quotas import quota_exits, thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.replay.greedy_thresholds import greedy_exits
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.vocabulary import SCHEDULES, Schedule
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.statistics.resampling.resampled_curves import resampled_exits
from exitbench.benchmarks.statistics.resampling.sample_weights import SampleWeights

FITS: Mapping[Schedule, Callable[[Curve, float, Measure], NDArray[np.int64]]] = {
    "quota": lambda train, speed_up, _measure: quota_exits(train.scores, speed_up, train.outcomes.layer_costs),
    "greedy": greedy_exits,
}
"""The exits that each way asks for on the training samples at a speed-up."""


def per_layer_points(
    merged: MergedParts, curves: Sequence[PartCurves], point: OperatingPoint, weights: SampleWeights
) -> dict[Schedule, ResampledPoint]:
    """The entry ``merged`` at a speed-up with its shared threshold and with both kinds of per-layer thresholds.

    ``curves`` are those of its configurations; ``weights`` those of all scored samples.
    """
    return {schedule: per_layer_point(merged, curves, point, weights, schedule) for schedule in SCHEDULES}


def per_layer_point(
    merged: MergedParts,
    curves: Sequence[PartCurves],
    point: OperatingPoint,
    weights: SampleWeights,
    schedule: Schedule,
) -> ResampledPoint:
    """The same with one kind of thresholds."""
    if schedule == "shared":
        shared = merged.at(point).exits
        assert shared is not None  # near a speed-up there always is an operating point
        layers = shared
    else:
        layers = np.zeros(merged.samples.size, dtype=np.int64)
        chosen = [curves[int(number)] for number in merged.choices.at(point).parts]
        for part, part_curves in zip(merged.parts, chosen, strict=True):
            thresholds = part_thresholds(part_curves, part, schedule, point.number, merged.samples.measure)
            test = part_curves.exact(part.variant, "test", part.test)
            layers[part.test] = per_layer_exits(test.scores, thresholds)
    outcomes = merged.samples.outcomes
    value = ResampledPoint(
        threshold=float("nan"),
        exits=layers,
        tally=tally_at(layers, outcomes),
        resampled=resampled_exits(layers, outcomes, weights),
    )
    return merged.with_realised_status(point, value)


def part_thresholds(
    curves: PartCurves, part: Part, schedule: Schedule, speed_up: float, measure: Measure
) -> NDArray[np.float64]:
    """The per-layer thresholds [layers - 1] that the training samples of a part give at a speed-up."""
    train = curves.exact(part.variant, part.train_role, part.train)
    return thresholds_of_exits(train.scores, FITS[schedule](train, speed_up, measure))
