import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from exitbench.benchmarks.statistics.intervals import (
    choose_resampled,
    difference,
    differences,
    interval,
    intervals,
    percentiles_and_std_err,
    score_differences,
)


def test_the_interval_holds_the_middle_of_the_resamples():
    drawn = np.random.default_rng(0).normal(50, 2, 1000)
    estimate = interval(50.0, drawn, 300)
    assert (estimate.low, estimate.high) == pytest.approx((np.percentile(drawn, 2.5), np.percentile(drawn, 97.5)))
    assert estimate.std_err == pytest.approx(np.std(drawn, ddof=1))
    assert (estimate.value, estimate.n, estimate.status, estimate.reason) == (50.0, 300, "ok", "")


def test_resamples_that_all_agree_are_unreliable():
    estimate = interval(100.0, np.full(100, 100.0), 40)
    assert (estimate.low, estimate.high, estimate.std_err, estimate.status) == (100.0, 100.0, 0.0, "unreliable")
    assert "standard error is 0" in estimate.reason


def test_agreement_is_seen_through_rounding():
    assert interval(0.1, np.full(999, 0.1), 5).std_err == 0.0
    assert difference(0.3, 0.3, np.full(999, 0.1), np.full(999, 0.1)).p_value == 1.0


def test_two_resamples_make_an_interval_and_one_in_twenty_may_be_missing():
    assert interval(1.0, [0.0, 2.0], 4).std_err == pytest.approx(math.sqrt(2))
    assert interval(1.0, [0.0], 4).status == "unreliable"
    draws = np.random.default_rng(0).normal(size=100)
    for missing, status in ((5, "ok"), (6, "unreliable")):
        assert interval(0.0, np.where(np.arange(100) < missing, np.nan, draws), 50).status == status
    _, _, std_err = percentiles_and_std_err(np.array([[0.0, 2.0]]), 0.95)
    assert std_err == pytest.approx([math.sqrt(2)])


def test_a_value_that_does_not_exist_is_undefined():
    assert interval(math.nan, np.ones(10), 4).status == "undefined"
    assert interval(1.0, np.full(10, np.nan), 4).status == "unreliable"
    assert difference(math.nan, 1.0, np.ones(5), np.ones(5)).status == "undefined"
    assert difference(1.0, 1.0, np.full(5, np.nan), np.ones(5)).status == "undefined"


def test_missing_resamples_are_left_out_and_many_of_them_are_reported():
    drawn = np.random.default_rng(0).normal(size=1000)
    few, many = drawn.copy(), drawn.copy()
    few[:40], many[:60] = np.nan, np.nan
    assert interval(0.0, few, 9).status == "ok"
    assert interval(0.0, few, 9).std_err == pytest.approx(np.std(drawn[40:], ddof=1))
    assert interval(0.0, many, 9).status == "unreliable"
    assert interval(0.0, many, 9).reason == "60 of 1000 resamples do not have this value"


def test_a_paired_difference_is_tested_by_its_bootstrap_error():
    rng = np.random.default_rng(0)
    shared = rng.normal(80, 1, 1000)
    a, b = shared + rng.normal(0.3, 0.1, 1000), shared + rng.normal(0, 0.1, 1000)
    tested = difference(80.3, 80.0, a, b)
    std_err = np.std(a - b, ddof=1)
    assert tested.std_err == pytest.approx(std_err)
    assert tested.p_value == pytest.approx(2 * stats.norm.sf(0.3 / std_err))
    assert difference(80.0, 80.3, b, a).p_value == pytest.approx(tested.p_value)
    normal, percentile = stats.norm.interval(0.95, 0.3, std_err), np.percentile(a - b, [2.5, 97.5])
    assert tested.low == pytest.approx(min(normal[0], percentile[0]))
    assert tested.high == pytest.approx(max(normal[1], percentile[1]))


def test_an_interval_reaches_to_its_value_where_the_resamples_lie_on_one_side():
    drawn = np.random.default_rng(0).uniform(0.1, 0.49, 1000)
    for estimate in (interval(0.5, drawn, 300), intervals([0.5], drawn[None], 300)[0]):
        assert estimate.low == pytest.approx(np.percentile(drawn, 2.5))
        assert estimate.high == 0.5
    assert interval(0.05, drawn, 300).low == 0.05


def test_a_second_hump_beyond_zero_takes_the_claim_back():
    """One resample in ten chooses another value of a grid, which turns the sign; the normal law alone would claim."""
    paired = np.concatenate([np.full(900, -6.9), np.full(100, 2.7)]) + np.random.default_rng(0).normal(0, 0.3, 1000)
    assert 2 * stats.norm.sf(6.9 / np.std(paired, ddof=1)) < 0.05
    tested = difference(60.0, 66.9, paired, np.zeros(1000))
    assert tested.p_value == pytest.approx(2 * (100 + 1) / 1001)
    assert tested.low < 0 < tested.high


@pytest.mark.long
@given(
    resampled=arrays.arrays(float, st.integers(2, 80), elements=st.sampled_from([-2.0, -1.0, 0.0, 0.5, 1.0, 3.0, 9.0])),
    value=st.sampled_from([-3.0, -1.0, 0.0, 1.0, 2.0, 5.0, 9.0]),
)
@settings(max_examples=300, deadline=None)
def test_p_value_and_interval_never_contradict_each_other_whatever_the_resamples(resampled, value):
    tested = difference(value, 0.0, resampled, np.zeros(len(resampled)))
    if tested.status == "ok":
        assert (tested.p_value <= 0.05) == (tested.low > 0 or tested.high < 0)
        assert tested.low <= value <= tested.high


def test_a_difference_without_variance_is_p_one_if_equal_else_undefined():
    assert difference(5.0, 3.0, np.full(9, 5.0), np.full(9, 3.0)).value == 2.0
    same = np.random.default_rng(0).normal(size=50)
    assert difference(3.0, 3.0, same, same).p_value == 1.0
    apart = difference(3.0, 2.0, np.full(50, 3.0), np.full(50, 2.0))
    assert apart.status == "undefined"
    assert math.isnan(apart.p_value)
    assert "no variance" in apart.reason


def test_the_best_configuration_is_chosen_and_ties_go_to_the_default():
    def choose(scores, default):
        return int(choose_resampled(np.array(scores)[:, None], default)[0])

    assert choose([1.0, 3.0, 2.0], default=0) == 1
    assert choose([3.0, 3.0, 2.0], default=1) == 1
    assert choose([3.0, 3.0, 2.0], default=2) == 0
    assert choose([math.nan, 1.0], default=0) == 1
    assert choose([math.nan, math.nan], default=1) == 1


def test_each_resample_makes_its_own_choice():
    scores = np.array([[1.0, 5.0, 2.0, math.nan], [2.0, 4.0, 2.0, 0.0]])
    choice = choose_resampled(scores, default=1)
    assert choice.tolist() == [1, 0, 1, 1]


def awkward_values():
    """Values with resamples of every kind: plain, without spread, with a few or only missing ones."""
    rng = np.random.default_rng(4)
    resampled = rng.normal(size=(9, 200))
    resampled[1] = 0.25
    resampled[2, :3] = np.nan
    resampled[3, :50] = np.nan
    resampled[4] = np.nan
    resampled[5] = resampled[0]
    resampled[6] = resampled[0] + 1.0
    values = np.array([0.1, 0.25, 0.0, 1.0, 2.0, 0.1, 1.1, np.nan, 0.3])
    return values, resampled


def test_many_intervals_at_once_are_those_of_each_value():
    values, resampled = awkward_values()
    for estimate, value, draws in zip(intervals(values, resampled, 30), values, resampled, strict=True):
        assert repr(estimate) == repr(interval(value, draws, 30))
    low, high, std_err = percentiles_and_std_err(resampled, 0.9)
    np.testing.assert_allclose(low[:2], np.quantile(resampled[:2], 0.05, axis=1))
    np.testing.assert_allclose(high[:2], np.quantile(resampled[:2], 0.95, axis=1))
    np.testing.assert_allclose(std_err[:2], [np.std(resampled[0], ddof=1), 0.0])
    assert intervals([], np.empty((0, 200)), 30) == []


def test_many_differences_at_once_are_those_of_each_pair():
    values, resampled = awkward_values()
    pairs = list(itertools.combinations(range(len(values)), 2))
    for tested, (a, b) in zip(differences(values, resampled, pairs), pairs, strict=True):
        assert repr(tested) == repr(difference(float(values[a]), float(values[b]), resampled[a], resampled[b]))
    assert differences(values, resampled, []) == []


def test_a_single_resample_says_nothing_of_many_values_either():
    assert [estimate.status for estimate in intervals([1.0, 2.0], np.ones((2, 1)), 5)] == ["unreliable", "unreliable"]
    assert differences(np.ones(2), np.ones((2, 1)), [(0, 1)])[0].status == "undefined"


def test_a_score_difference_takes_the_error_of_its_samples_where_resamples_confirm_it():
    rng = np.random.default_rng(7)
    answers = rng.random((2, 400)) < np.array([[0.9], [0.86]])
    values = 100 * answers.mean(axis=1)
    influence = [100 * (row - row.mean()) / 400 for row in answers]
    error = 100 * (answers[0].astype(int) - answers[1]).std() / 20
    draws = values[:, None] + error * rng.normal(size=(2, 500)) / np.sqrt(2)
    (test,) = score_differences(values, draws, influence, [(0, 1)], errors=np.array([0.7]))
    whole = np.hypot(error, 0.7)
    assert test.std_err == pytest.approx(whole)
    assert test.p_value == pytest.approx(2 * stats.norm.sf(abs(values[0] - values[1]) / whole))
    assert (test.low, test.high) == pytest.approx(stats.norm.interval(0.95, values[0] - values[1], whole))
    far = values[:, None] + 1.4 * (draws - values[:, None])
    same = np.tile(values[:, None], 20)  # no resample moves anything: an error of 0 confirms none
    for resampled, moved in ((far, influence), (draws, [influence[0], None]), (same, influence)):
        assert score_differences(values, resampled, moved, [(0, 1)]) == differences(values, resampled, [(0, 1)])
