"""Procedures on hand-made losses, and against their definitions by brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.benchmarks.guarantees.procedures import (
    LossTest,
    conformal_consistency,
    fixed_sequence,
    risk_control,
    smallest_passing,
)


def rows(ones, count=500):
    return np.concatenate([np.ones(ones), np.zeros(count - ones)])


def test_the_walk_ends_on_the_last_policy_that_passes_and_not_on_the_first_that_fails():
    test = LossTest("0 or 1", 0.05, 0.1)
    walk = fixed_sequence([rows(0), rows(10), rows(40), rows(0)], test)
    assert walk.passed == 2
    assert walk.p_value == test.p_value(rows(10))
    assert walk.failed_p_value == test.p_value(rows(40)) > 0.1


def test_nothing_is_looked_at_behind_the_first_failure():
    def path():
        yield rows(100)
        raise AssertionError("looked at")

    assert fixed_sequence(path(), LossTest("0 or 1", 0.05, 0.1)).passed == 0


def test_a_path_may_pass_to_its_end():
    walk = fixed_sequence([rows(0), rows(1)], LossTest("0 or 1", 0.05, 0.1))
    assert (walk.passed, walk.failed_p_value) == (2, None)
    assert fixed_sequence([], LossTest("0 or 1", 0.05, 0.1)).passed == 0


def test_a_p_value_of_exactly_the_level_passes():
    losses = rows(10)
    level = LossTest("0 or 1", 0.05, 0.1).p_value(losses)
    assert LossTest("0 or 1", 0.05, level).passes(losses)


@pytest.mark.parametrize(
    ("values", "name"), [("0 or 1", "exact binomial"), ("0 to 1", "Hoeffding-Bentkus"), ("up to 1", "betting")]
)
def test_each_kind_of_loss_has_its_test(values, name):
    test = LossTest(values, 0.05, 0.1)
    assert test.name == name
    expected = {"0 or 1": 4.600072e-4, "0 to 1": 1.250429e-3}.get(values)
    if expected is not None:
        assert test.p_value(rows(10)) == pytest.approx(expected, rel=1e-6)
    else:
        assert test.p_value(rows(10)) != LossTest(values, 0.05, 0.01).p_value(rows(10))  # stakes know the level


def test_risk_control_takes_the_largest_loss_so_far():
    # The second row loses at the first policy and not at the second: it counts at both.
    losses = np.array([[0.0, 1, 0, 0], [1.0, 0, 0, 0], [1.0, 1, 1, 0]])
    assert risk_control(losses, 0.4) == 1  # (1 + 1) / 5 is within 0.4
    assert risk_control(losses, 0.39) == 0
    assert risk_control(losses, 0.6) == 2
    assert risk_control(losses, 0.8) == 3
    assert risk_control(losses[:0], 0.5) == 0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.9))
def test_risk_control_is_its_formula_on_monotone_losses(seed, limit):
    random = np.random.default_rng(seed)
    losses = random.choice([-0.5, 0.0, 0.25, 1.0], size=(5, random.integers(1, 30)))
    count = losses.shape[1]
    passed = 0
    for step in range(1, 6):
        largest = [max(losses[:step, row]) for row in range(count)]
        if count / (count + 1) * (sum(largest) / count) + 1 / (count + 1) > limit + 1e-9:
            break
        passed = step
    assert risk_control(losses, limit) == passed


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.floats(0.02, 0.6))
def test_conformal_consistency_is_the_higher_quantile_with_infinity_appended(seed, limit):
    random = np.random.default_rng(seed)
    count = int(random.integers(1, 60))
    certainty = random.integers(0, 8, size=(3, count)).astype(float)
    consistent = random.random((3, count)) < 0.7
    riskiest = [max([certainty[m, i] for m in range(3) if not consistent[m, i]], default=-np.inf) for i in range(count)]
    rank = int(np.ceil(round((1 - limit) * (count + 1), 9)))  # of the values with infinity behind them
    expected = sorted([*riskiest, np.inf])[rank - 1]
    assert conformal_consistency(certainty, consistent, np.ones(count), limit) == expected


def test_conformal_consistency_counts_a_group_once():
    certainty = np.array([[3.0, 2.0, 1.0, 0.5]])
    wrong = np.zeros((1, 4), dtype=bool)
    # Two groups: of the first three rows each weighs a third.
    weights = np.array([1 / 3, 1 / 3, 1 / 3, 1.0])
    assert conformal_consistency(certainty, wrong, weights, 0.5) == 2.0  # allowed: half a group
    assert conformal_consistency(certainty, wrong, weights, 2 / 3) == 0.5
    assert conformal_consistency(certainty, wrong, weights, 0.3) == np.inf


@pytest.mark.parametrize("least", [1, 2, 3, 230, 1024, 1025])
def test_the_fewest_rows_are_found(least):
    assert smallest_passing(lambda count: count >= least) == least


def test_where_no_number_of_rows_passes_there_is_none():
    assert smallest_passing(lambda count: False) is None
