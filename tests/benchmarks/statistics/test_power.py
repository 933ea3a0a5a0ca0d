import math

import numpy as np
import pytest
from scipy.stats import norm

from exitbench.benchmarks.statistics.power import claimable


def test_one_pair_takes_the_two_textbook_quantiles():
    assert claimable(1.0) == pytest.approx(norm.ppf(0.975) + norm.ppf(0.8))
    assert claimable(0.4) == pytest.approx(0.4 * claimable(1.0))


@pytest.mark.parametrize("tests", [1, 28])
def test_a_difference_of_that_size_is_claimed_in_four_cases_of_five(tests):
    draws = np.random.default_rng(0).normal(claimable(0.7, tests), 0.7, 20_000)
    p_values = 2 * norm.sf(np.abs(draws) / 0.7)
    assert np.mean(p_values < 0.05 / tests) == pytest.approx(0.8, abs=0.01)


def test_without_an_error_or_a_test_nothing_can_be_said():
    assert math.isnan(claimable(0.0))
    assert math.isnan(claimable(math.nan))
    assert math.isnan(claimable(1.0, tests=0))
