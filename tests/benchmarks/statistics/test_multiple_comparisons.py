import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy.stats import norm

from exitbench.benchmarks.statistics.multiple_comparisons import column_marks, holm


def rejected_step_down(p_values, alpha):
    """Holm's procedure as he wrote it: from the smallest p, reject while p <= alpha / (tests left)."""
    order = sorted(range(len(p_values)), key=lambda test: p_values[test])
    rejected = set()
    for step, test in enumerate(order):
        if p_values[test] > alpha / (len(p_values) - step):
            break
        rejected.add(test)
    return rejected


@pytest.mark.long
@given(arrays.arrays(float, st.integers(1, 8), elements=st.floats(0, 1)), st.sampled_from([0.01, 0.05, 0.2]))
@settings(max_examples=150, deadline=None)
def test_adjusted_p_values_reject_what_the_step_down_procedure_rejects(p_values, alpha):
    adjusted = holm(p_values)
    expected = rejected_step_down(p_values.tolist(), alpha)
    for test, p_value in enumerate(adjusted):
        if abs(p_value - alpha) > 1e-12:
            assert (p_value <= alpha) == (test in expected)
    assert np.all(adjusted >= p_values - 1e-15)
    assert np.all(adjusted <= 1)


def test_a_published_example():
    # Holm's factors 4, 3, 2, 1 by hand.
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


def test_an_undefined_test_does_not_count():
    adjusted = holm([0.02, math.nan, 0.03])
    assert adjusted[[0, 2]] == pytest.approx([0.04, 0.04])
    assert math.isnan(adjusted[1])
    assert holm([]).shape == (0,)


def all_pairs(entries: int, p_value: float) -> dict[tuple[int, int], float]:
    return dict.fromkeys(itertools.combinations(range(entries), 2), p_value)


def test_best_and_all_not_shown_to_be_worse_are_marked():
    p_values = {(0, 1): 0.001, (0, 2): 0.9, (0, 3): 0.8, (1, 2): 0.012, (1, 3): 0.2, (2, 3): 0.7}
    column = column_marks([70.0, 75.0, 74.0, 74.5, math.nan], p_values)
    assert column.best.tolist() == [False, True, False, False, False]
    assert column.first_best == 1
    # Holm over all six pairs by hand: 0.001 x 6, 0.012 x 5, 0.2 x 4.
    assert [column.adjusted[pair] for pair in ((0, 1), (1, 2), (1, 3))] == pytest.approx([0.006, 0.06, 0.8])
    assert column.tied_with_best.tolist() == [False, True, True, True, False]


def test_at_exactly_five_percent_holm_rejects_so_there_is_no_tie():
    at, above = (column_marks([5.0, 4.0], {(0, 1): p}) for p in (0.05, np.nextafter(0.05, 1)))
    assert 0 in rejected_step_down([0.05], 0.05)
    assert at.tied_with_best.tolist() == [True, False]
    assert above.tied_with_best.tolist() == [True, True]


def test_for_a_rate_the_smallest_is_best():
    column = column_marks([3.0, 1.0, 2.0], all_pairs(3, 0.5), larger_is_better=False)
    assert column.best.tolist() == [False, True, False]
    assert column.tied_with_best.all()


def test_equal_values_are_all_best():
    column = column_marks([5.0, 5.0, 4.0], {(0, 1): 1.0, (0, 2): 1e-9, (1, 2): 1e-9})
    assert column.best.tolist() == [True, True, False]
    assert column.tied_with_best.tolist() == [True, True, False]


def test_an_undefined_test_does_not_make_a_tie():
    assert column_marks([5.0, 4.0], {(0, 1): math.nan}).tied_with_best.tolist() == [True, False]


def test_a_column_without_values_has_no_best():
    column = column_marks([math.nan, math.nan], {})
    assert not column.best.any()
    assert not column.tied_with_best.any()
    assert column.first_best == -1


@pytest.mark.long
def test_equal_signals_are_rarely_told_apart():
    """Eight equal signals, 2000 columns of correlated normal values: at most 6% of columns may claim a difference."""
    rng = np.random.default_rng(0)
    pairs = list(itertools.combinations(range(8), 2))
    claims = false_claims = 0
    for _ in range(2000):
        values = rng.normal(size=8) + rng.normal()
        p_values = {(a, b): float(2 * norm.sf(abs(values[a] - values[b]) / math.sqrt(2))) for a, b in pairs}
        claims += not column_marks(values, p_values).tied_with_best.all()
        best = int(np.argmax(values))
        with_best = holm([p_values[min(best, other), max(best, other)] for other in range(8) if other != best])
        false_claims += bool((with_best <= 0.05).any())
    assert claims / 2000 <= 0.06
    assert false_claims / 2000 > 0.1, "holding all against the observed best alone claims too much"
