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
from exitbench.benchmarks.protocols.part_points import ResampledPoint
from exitbench.benchmarks.protocols.splits import Part
from exitbench.benchmarks.replay.exit_quotas import quota_exits, thresholds_of_exits
from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.replay.greedy_thresholds import greedy_exits
from exitbench.benchmarks.replay.tally import tally_at
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.operating_point import OperatingPoint
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.scoring.outcomes import Measure
from exitbench.benchmarks.statistics.resampled_curves import SampleWeights, resampled_exits

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
    shared = merged.at(point)
    assert shared.exits is not None  # near a speed-up there always is an operating point
    exits: dict[Schedule, NDArray[np.int64]] = {"shared": shared.exits}
    chosen = [curves[int(number)] for number in merged.choices.at(point).parts]
    for schedule, fit in FITS.items():
        exits[schedule] = np.zeros(merged.samples.size, dtype=np.int64)
        for part, part_curves in zip(merged.parts, chosen, strict=True):
            exits[schedule][part.test] = _part_exits(part_curves, part, fit, point.number, merged.samples.measure)
    points = {}
    for schedule, layers in exits.items():
        outcomes = merged.samples.outcomes
        value = ResampledPoint(
            threshold=float("nan"),
            exits=layers,
            tally=tally_at(layers, outcomes),
            resampled=resampled_exits(layers, outcomes, weights),
        )
        points[schedule] = merged.with_realised_status(point, value)
    return points


def _part_exits(
    curves: PartCurves,
    part: Part,
    fit: Callable[[Curve, float, Measure], NDArray[np.int64]],
    speed_up: float,
    measure: Measure,
) -> NDArray[np.int64]:
    """The exits of a part's test samples at thresholds fitted on its training samples, [test samples]."""
    train = curves.exact(part.variant, part.train_role, part.train)
    thresholds = thresholds_of_exits(train.scores, fit(train, speed_up, measure))
    test = curves.exact(part.variant, "test", part.test)
    return per_layer_exits(test.scores, thresholds)
