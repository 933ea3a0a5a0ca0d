"""Areas: their values are those of the exact curve, and so is the middle of their resamples."""

import numpy as np
import pytest

from exitbench.benchmarks.run.compare_stage import area_rows
from exitbench.benchmarks.run.measurements import ComparedEntry
from exitbench.benchmarks.scoring.score_store import Samples

COLUMNS = {"cache": "c", "model": "m", "task": "t", "split": "dev", "protocol": "in-sample"}


def entry(*, exact: bool) -> ComparedEntry:
    """A band of three costs below a curve that is higher between them; resamples differ by a whole point each."""
    cost, score = np.array([0.2, 0.6, 1.0]), np.array([60.0, 80.0, 90.0])
    moves = np.array([-1.0, 0.0, 1.0])
    return ComparedEntry(
        protocol="in-sample",
        signal="made-up",
        parameters="",
        reason="",
        resampled={},
        certainty=np.zeros((4, 9)),
        cost=cost,
        score=score,
        cost_resampled=np.repeat(cost[:, None], 3, axis=1),
        score_resampled=score[:, None] + moves,
        exact_cost=np.array([0.2, 0.4, 0.6, 0.8, 1.0]) if exact else None,
        exact_score=np.array([60.0, 74.0, 80.0, 88.0, 90.0]) if exact else None,
    )


@pytest.mark.parametrize("exact", [True, False])
def test_resamples_of_an_area_are_moved_to_the_exact_curve(exact: bool) -> None:
    samples = Samples(np.arange(9), np.zeros(9, dtype=int), np.zeros((5, 9), dtype=int), "accuracy")
    (area,) = area_rows(COLUMNS, [entry(exact=exact)], samples)
    # Trapezia by hand; a whole point over the width of 0.8 is an area of 0.8.
    band = 0.4 * 70 + 0.4 * 85
    curve = 0.2 * 67 + 0.2 * 77 + 0.2 * 84 + 0.2 * 89
    expected = curve if exact else band
    assert area.row.value == pytest.approx(expected)
    assert area.resampled == pytest.approx(expected + np.array([-0.8, 0.0, 0.8]))
    assert area.row.low < area.row.value < area.row.high
