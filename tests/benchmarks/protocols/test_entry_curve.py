"""Which points of its configurations' curves an entry's own curve is made of."""

from pathlib import Path

import numpy as np

from exitbench.benchmarks.protocols.entry_curve import in_sample_pieces
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.suites.questions import Questions
from tests.support.literal_points import grid
from tests.support.scored_cases import random_arrays, scored_cache


def test_a_point_belongs_to_the_configuration_that_is_chosen_at_the_nearest_cost(tmp_path: Path) -> None:
    cache = scored_cache(tmp_path, *random_arrays(4, 77, 6, 2), grid(2))
    questions = Questions(speed_ups=(2.0,), rates_speed_up=2.0, losses=(5.0,), resamples=5)
    merged = merged_parts(cache, evaluate_configurations(cache, [0, 1], questions), "in-sample", [0, 1], questions)
    curves = [trade_off_curve(cache.scores(number), cache.samples().outcomes) for number in (0, 1)]
    pieces = in_sample_pieces(curves, merged)
    assert [piece.curve for piece in pieces] == curves
    costs, chosen = np.linspace(1 / 6, 1, 48), merged.choices.along_costs.parts[0]
    for number, piece in enumerate(pieces):
        nearest = np.abs(piece.curve.relative_cost[:, None] - costs).argmin(axis=1)
        assert piece.points.tolist() == sorted({*np.flatnonzero(chosen[nearest] == number), *piece.named})
