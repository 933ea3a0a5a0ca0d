"""Rows without an operating point: exit rates at equal shares and calibration, with statuses and intervals."""

import numpy as np
import pytest

from exitbench.benchmarks.measures.equal_share import all_layers, equal_share_errors
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.rows.certainty_rows import calibration_rows, equal_share_rows

BLANK = Row("c", "m", "t", "dev", "in-sample", "s", "", measure="", reason="chosen")


@pytest.fixture(scope="module")
def ranking() -> Ranking:
    """Three layers of 200 samples; the first has no score, the second gets everything right."""
    rng = np.random.default_rng(2)
    right = rng.random((3, 200)) < 0.7
    right[1] = True
    certainty = np.clip(0.6 * right + 0.4 * rng.random((3, 200)), 0, 1)
    certainty[0] = np.nan
    return Ranking(certainty, right)


def test_both_rates_stand_over_all_layers_and_at_each(ranking: Ranking) -> None:
    rows = equal_share_rows(BLANK, ranking)
    assert [(row.layer, row.measure) for row in rows] == [
        (layer, measure) for layer in (None, 1, 2, 3) for measure in ("premature_rate", "delayed_rate")
    ]
    assert {row.decisions for row in rows} == {"equal-share"}
    assert {row.operating_point.text for row in rows} == {""}
    together = all_layers(ranking)
    for row in rows[:2]:
        assert row.value == together.rate(row.measure)
        assert row.std_err == pytest.approx(np.sqrt(np.sum(together.influence(row.measure) ** 2)))
        assert 0 < row.low < row.value < row.high < 100
        assert row.reason == "no score at layer 1: all samples tied there; chosen"
    assert [row.value for row in rows[6:]] == [equal_share_errors(ranking, 3).rate(row.measure) for row in rows[6:]]


def test_a_layer_without_scores_or_without_errors_has_no_rates(ranking: Ranking) -> None:
    by_layer = {(row.layer, row.measure): row for row in equal_share_rows(BLANK, ranking)}
    assert by_layer[1, "premature_rate"].status == "undefined"
    assert "no score at this layer" in by_layer[1, "premature_rate"].reason
    assert by_layer[2, "delayed_rate"].status == "undefined"
    assert "no hard sample" in by_layer[2, "delayed_rate"].reason


def test_a_perfect_signal_has_no_error_bar() -> None:
    right = np.arange(60)[None] % 3 > 0
    pooled, *_ = equal_share_rows(BLANK, Ranking(right + np.arange(60)[None] / 100, right))
    assert (pooled.value, pooled.std_err, pooled.status) == (0.0, 0.0, "unreliable")


def test_without_any_wrong_prediction_there_is_no_premature_rate() -> None:
    rows = equal_share_rows(BLANK, Ranking(np.arange(20.0)[None], np.ones((1, 20), dtype=bool)))
    assert (rows[0].status, rows[0].reason) == ("undefined", "no decision falls on such a prediction; chosen")


def test_calibration_stands_at_every_layer_with_a_score(ranking: Ranking) -> None:
    rows = calibration_rows(BLANK, ranking)
    assert [(row.layer, row.measure) for row in rows] == [(2, "ece"), (2, "brier"), (3, "ece"), (3, "brier")]
    brier = rows[3]
    squared = 100 * (ranking.certainty[2] - ranking.right[2]) ** 2
    assert brier.value == pytest.approx(squared.mean())
    assert brier.std_err == pytest.approx(squared.std() / np.sqrt(200))
    assert brier.high - brier.value == pytest.approx(1.959964 * brier.std_err, rel=1e-6)
    assert all(row.low >= 0 for row in rows)


def test_probabilities_that_are_all_certain_and_right_have_no_error_bar() -> None:
    rows = calibration_rows(BLANK, Ranking(np.ones((1, 9)), np.ones((1, 9), dtype=bool)))
    assert {row.status for row in rows} == {"unreliable"}
    assert {row.value for row in rows} == {0.0}
