"""What figures draw, counted by hand."""

from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.protocols.entry_curve import in_sample_pieces
from exitbench.benchmarks.replay.exit_rule import exit_layers
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.evaluated_configurations import evaluate_configurations, merged_parts
from exitbench.benchmarks.run.rows.figure_rows import (
    FigureData,
    exit_counts,
    exit_histogram_rows,
    risk_coverage_rows,
)
from exitbench.benchmarks.scoring.score_store import Samples
from exitbench.benchmarks.suites.questions import Questions
from tests.support.for_each import for_each
from tests.support.score_cases import random_case
from tests.support.scored_cases import configuration, random_arrays, scored_cache

COLUMNS = {
    "cache": "c",
    "model": "m",
    "task": "t",
    "split": "dev",
    "protocol": "in-sample",
    "signal": "s",
    "parameters": "",
}


def test_exits_are_counted_by_layer_right_and_wrong() -> None:
    labels = np.array([0, 1, 0, 1, 1])
    predictions = np.array([[0, 0, 0, 1, 1], [1, 1, 0, 1, 0], [0, 1, 0, 1, 1]])
    samples = Samples(np.arange(5), labels, predictions, "accuracy")
    table = exit_histogram_rows(COLUMNS, at_speed_up(2.0), np.array([1, 1, 3, 2, 2]), samples)
    assert table["layer"].to_pylist() == [1, 2, 3]
    assert table["right"].to_pylist() == [1, 1, 1]
    assert table["wrong"].to_pylist() == [1, 1, 0]
    assert table["count"].to_pylist() == [2, 2, 1]


def test_risk_is_the_share_of_wrong_answers_among_the_most_certain() -> None:
    certainty = np.array([0.9, 0.1, 0.5, 0.7])
    right = np.array([True, False, False, True])
    table = risk_coverage_rows(COLUMNS, certainty, right, None, 1)
    assert table["coverage"].to_pylist() == [0.25, 0.5, 0.75, 1.0]
    np.testing.assert_allclose(table["risk"].to_pylist(), [0.0, 0.0, 100 / 3, 50.0])
    # Two folds of two: each takes its own most certain half, and their risks count by size.
    table = risk_coverage_rows(COLUMNS, certainty, right, np.array([0, 0, 1, 1]), 1)
    np.testing.assert_allclose(table["risk"].to_pylist()[1], 0.0)
    np.testing.assert_allclose(table["risk"].to_pylist()[3], 50.0)


@for_each(seed=range(20))
def test_exits_at_every_operating_point_are_those_of_its_threshold(seed: int) -> None:
    curve = random_case(seed, samples=30).curve
    points = np.arange(curve.points)[:: 1 + seed % 3]
    expected = [
        np.bincount(exit_layers(curve.scores, float(curve.thresholds[point])), minlength=curve.depth + 1)[1:]
        for point in points
    ]
    np.testing.assert_array_equal(exit_counts(curve, points), expected)


def test_histogram_and_risk_of_a_layer_judge_its_own_answers(tmp_path: Path) -> None:
    labels, predictions, scores = random_arrays(4, 90, 6, 1)
    cache = scored_cache(tmp_path, labels, predictions, scores, [configuration()])
    questions = Questions(speed_ups=(2.0,), rates_speed_up=2.0, losses=(), resamples=5)
    merged = merged_parts(cache, evaluate_configurations(cache, [0], questions), "in-sample", [0], questions)
    data = FigureData(cache.samples(), (2, 5), ("histograms", "risk_coverage"))
    data.add(Row(**COLUMNS, measure=""), merged, [], sign=1, pieces=[])
    curve = trade_off_curve(cache.scores(0, "in-sample"), cache.samples().outcomes)
    for count in (1, 2):  # pieces of several configurations share no scale of thresholds
        points = FigureData(cache.samples(), (2, 5), ("curves",))
        points.add(Row(**COLUMNS, measure=""), merged, [], sign=1, pieces=in_sample_pieces([curve], merged) * count)
        exact = pa.concat_tables(points.tables()["curves"]).to_pandas().query("kind == 'point'")
        assert len(exact) > 10 and exact["threshold"].notna().all() == (count == 1) != exact["threshold"].isna().all()
    histograms, risks = (pa.concat_tables(data.tables()[name]).to_pandas() for name in ("histograms", "risk_coverage"))
    for layer in (2, 5):
        right = int((predictions[layer - 1] == labels).sum())
        rows = histograms[histograms["layer"] == layer]
        assert (rows["right"].sum(), rows["wrong"].sum()) == (right, 90 - right)
        np.testing.assert_allclose(risks[risks["layer"] == layer]["risk"].iloc[-1], 100 * (90 - right) / 90)
