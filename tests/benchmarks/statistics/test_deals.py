"""The error between deals of folds against numpy, and resamples that carry it."""

import numpy as np
import pytest

from exitbench.benchmarks.statistics.deals import deal_error, mean_over_deals, paired_deal_errors, stretched
from exitbench.benchmarks.statistics.intervals import difference, differences

RNG = np.random.default_rng(0)


def test_the_error_of_a_mean_over_deals_is_that_of_a_mean():
    deals = RNG.normal(size=(4, 5))
    np.testing.assert_allclose(deal_error(deals), deals.std(axis=1, ddof=1) / np.sqrt(5))
    assert deal_error(deals[0, :1]) == 0.0


def test_a_deal_without_a_value_does_not_count():
    deals = np.array([3.0, np.nan, 5.0, 4.0])
    assert deal_error(deals) == pytest.approx(np.std([3, 5, 4], ddof=1) / np.sqrt(3))
    assert mean_over_deals(deals) == pytest.approx(4.0)
    assert np.isnan(mean_over_deals([np.nan]))


def test_paired_deals_cancel_what_they_share_and_unequal_numbers_of_deals_cannot():
    shared, lone, other = RNG.normal(size=5), np.array([2.0]), RNG.normal(size=5)
    values = [shared + 1.0, shared, lone, other, np.array([3.0])]
    errors = paired_deal_errors(values, [(0, 1), (1, 2), (2, 3), (1, 3), (2, 4)])
    alone = [np.std(each, ddof=1) / np.sqrt(5) for each in (shared, other, shared - other)]
    np.testing.assert_allclose(errors, [0.0, *alone, 0.0], atol=1e-12)


def test_stretched_resamples_have_both_variances_and_keep_their_centre():
    draws = RNG.normal(loc=80.0, scale=2.0, size=(3, 4000))
    errors = np.array([0.0, 1.0, 5.0])
    wider = stretched(draws, draws.mean(axis=1), errors)
    np.testing.assert_allclose(wider.std(axis=1, ddof=1) ** 2, draws.std(axis=1, ddof=1) ** 2 + errors**2)
    np.testing.assert_allclose(wider.mean(axis=1), draws.mean(axis=1))
    holes = draws.copy()
    holes[:, ::7] = np.nan
    wider = stretched(holes, draws.mean(axis=1), errors)
    np.testing.assert_allclose(np.nanstd(wider, axis=1, ddof=1) ** 2, np.nanstd(holes, axis=1, ddof=1) ** 2 + errors**2)
    agreeing = np.full((1, 9), 3.0)
    np.testing.assert_array_equal(stretched(agreeing, [3.0], [1.0]), agreeing)


def test_a_difference_takes_the_error_between_deals_into_its_interval_and_p_value():
    first, second = RNG.normal(loc=81.0, size=2000), RNG.normal(loc=80.0, size=2000)
    plain, dealt = difference(81.0, 80.0, first, second), difference(81.0, 80.0, first, second, error=2.0)
    assert dealt.std_err == pytest.approx(np.hypot(plain.std_err, 2.0))
    assert dealt.p_value > plain.p_value
    assert dealt.low < plain.low < plain.high < dealt.high
    (many,) = differences(np.array([81.0, 80.0]), np.stack([first, second]), [(0, 1)], errors=np.array([2.0]))
    assert (many.low, many.high, many.std_err, many.p_value) == pytest.approx(
        (dealt.low, dealt.high, dealt.std_err, dealt.p_value)
    )
