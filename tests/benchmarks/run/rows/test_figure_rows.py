"""What figures draw, counted by hand."""

import numpy as np

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.run.rows.figure_rows import exit_histogram_rows, risk_coverage_rows
from exitbench.benchmarks.scoring.score_store import Samples

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
