import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from exitbench.benchmarks.statistics.multiple_comparisons import against_best, holm


def rejected_step_down(p_values, alpha):
    """Holm's procedure as he wrote it: from the smallest p, reject while p <= alpha / (tests left)."""
    order = sorted(range(len(p_values)), key=lambda test: p_values[test])
    rejected = set()
    for step, test in enumerate(order):
        if p_values[test] > alpha / (len(p_values) - step):
            break
        rejected.add(test)
    return rejected


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


def test_best_and_all_not_significantly_worse_are_marked():
    p_values = {0: 0.001, 2: 0.03, 3: 0.2}
    asked = []

    def p_value(best, other):
        asked.append((best, other))
        return p_values[other]

    column = against_best([70.0, 75.0, 74.0, 74.5, math.nan], p_value)
    assert asked == [(1, 0), (1, 2), (1, 3)]
    assert column.best.tolist() == [False, True, False, False, False]
    # Holm: 0.001 x 3, 0.03 x 2, 0.2 x 1.
    assert column.adjusted[[0, 2, 3]] == pytest.approx([0.003, 0.06, 0.2])
    assert column.tied_with_best.tolist() == [False, True, True, True, False]


def test_at_exactly_five_percent_holm_rejects_so_there_is_no_tie():
    at, above = (against_best([5.0, 4.0], lambda best, other, p=p: p) for p in (0.05, np.nextafter(0.05, 1)))
    assert 0 in rejected_step_down([0.05], 0.05)
    assert at.tied_with_best.tolist() == [True, False]
    assert above.tied_with_best.tolist() == [True, True]


def test_for_a_rate_the_smallest_is_best():
    column = against_best([3.0, 1.0, 2.0], lambda best, other: 0.5, larger_is_better=False)
    assert column.best.tolist() == [False, True, False]
    assert column.tied_with_best.all()


def test_equal_values_are_all_best():
    column = against_best([5.0, 5.0, 4.0], lambda best, other: 1.0 if other == 1 else 1e-9)
    assert column.best.tolist() == [True, True, False]
    assert column.tied_with_best.tolist() == [True, True, False]


def test_an_undefined_test_does_not_make_a_tie():
    column = against_best([5.0, 4.0], lambda best, other: math.nan)
    assert column.tied_with_best.tolist() == [True, False]


def test_a_column_without_values_has_no_best():
    column = against_best([math.nan, math.nan], lambda best, other: 1.0)
    assert not column.best.any()
    assert not column.tied_with_best.any()
