"""P-values against reference values, and against their definitions computed step by step."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import beta, binom

from exitbench.benchmarks.guarantees.p_values import betting_p_value, binomial_p_value, hoeffding_bentkus_p_value

RARE = np.where(np.arange(1, 501) % 50 == 0, 1.0, 0.0)
PATTERN = np.tile([0.0, 1, 0, 0, 1, 0, 0, 0, 0, 0], 20)
SIGNED = np.tile([0.0, 0, 1, 0, 0, -1, 0, 0, 0, 0], 50)


def losses(count, ones):
    return np.concatenate([np.ones(ones), np.zeros(count - ones)])


def upper_bound(p_value, level):
    """The limit at which a p-value is just small enough."""
    return brentq(lambda limit: p_value(limit) - level, 1e-9, 1 - 1e-9, xtol=1e-12)


@pytest.mark.parametrize(
    ("count", "ones", "limit", "expected"),
    [(500, 10, 0.05, 1.250429e-3), (1000, 5, 0.01, 0.1797858), (100, 0, 0.05, 5.920529e-3)],
)
def test_hoeffding_bentkus_has_its_reference_values(count, ones, limit, expected):
    assert hoeffding_bentkus_p_value(losses(count, ones), limit) == pytest.approx(expected, rel=1e-6)


def test_the_binomial_p_value_has_its_reference_value():
    assert binomial_p_value(losses(500, 10), 0.05) == pytest.approx(4.600072e-4, rel=1e-6)


@pytest.mark.parametrize(
    ("values", "level", "expected"),
    [
        (np.zeros(500), 0.1, 4.747730e-3),
        (np.zeros(1000), 0.1, 2.373472e-3),
        (RARE, 0.1, 0.0454479),
        (RARE, 0.05, 0.0503498),
        (PATTERN, 0.1, 0.2692212),
    ],
)
def test_the_upper_bound_by_betting_has_its_reference_values(values, level, expected):
    assert upper_bound(lambda limit: betting_p_value(values, limit, level), level) == pytest.approx(expected, rel=2e-6)


@pytest.mark.parametrize(("limit", "expected"), [(0.05, 0.0580859), (0.1, 2.688426e-4)])
def test_betting_takes_negative_losses(limit, expected):
    assert betting_p_value(SIGNED, limit, 0.1) == pytest.approx(expected, rel=2e-6)


def test_the_upper_bounds_of_ten_in_five_hundred_are_clopper_pearson_and_hoeffding_bentkus():
    rare = losses(500, 10)
    exact = upper_bound(lambda limit: binomial_p_value(rare, limit), 0.1)
    assert exact == pytest.approx(0.0306466, abs=1e-7)
    assert exact == pytest.approx(beta.ppf(0.9, 11, 490), rel=1e-9)
    assert upper_bound(lambda limit: hoeffding_bentkus_p_value(rare, limit), 0.1) == pytest.approx(0.0349471, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([-1.0, -0.25, 0.0, 0.5, 1.0]), min_size=1, max_size=40),
    st.floats(0.001, 0.9),
    st.sampled_from([0.05, 0.1, 0.5]),
)
def test_betting_is_what_its_definition_says_step_by_step(values, limit, level):
    count, wealth, most, total, squares, variance = len(values), 1.0, 1.0, 0.0, 0.0, 0.25
    for number, value in enumerate(values, 1):
        stake = min(1.0, math.sqrt(2 * math.log(1 / level) / (count * variance)))
        wealth *= 1 - stake * (value - limit)
        most = max(most, wealth)
        total += value
        mean = (0.5 + total) / (number + 1)
        squares += (value - mean) ** 2
        variance = (0.25 + squares) / (number + 1)
    assert betting_p_value(np.array(values), limit, level) == pytest.approx(1 / most, rel=1e-9)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 300), st.floats(0, 1), st.floats(0.001, 0.5))
def test_hoeffding_bentkus_is_never_below_the_exact_p_value_of_zeros_and_ones(count, share, limit):
    values = losses(count, round(share * count))
    exact, bound = binomial_p_value(values, limit), hoeffding_bentkus_p_value(values, limit)
    assert exact - 1e-12 <= bound <= 1
    assert exact == pytest.approx(binom.cdf(values.sum(), count, limit), abs=1e-12)


def test_fractions_of_losses_are_rounded_up_and_rounding_errors_are_not():
    tenths = np.full(30, 0.1)  # their sum is 3 and a little less in floats
    assert hoeffding_bentkus_p_value(tenths, 0.5) == hoeffding_bentkus_p_value(losses(30, 3), 0.5)
    more = np.full(30, 0.11)
    mean = 3.3 / 30
    hoeffding = math.exp(-30 * (mean * math.log(mean / 0.5) + (1 - mean) * math.log((1 - mean) / 0.5)))
    assert hoeffding_bentkus_p_value(more, 0.5) == pytest.approx(min(hoeffding, math.e * binom.cdf(4, 30, 0.5)))


def test_losses_at_the_limit_are_no_evidence():
    assert hoeffding_bentkus_p_value(losses(100, 5), 0.05) == 1.0
    assert betting_p_value(np.ones(50), 0.05, 0.1) == 1.0
    assert betting_p_value(np.ones(3), 1e-12, 1e-9) == 1.0  # everything is lost at once


@pytest.mark.parametrize(
    ("limit", "level", "without", "with_one"),
    [(0.05, 0.1, 45, 77), (0.02, 0.1, 114, 194), (0.01, 0.1, 230, 388), (0.01, 0.05, 299, 473)],
)
def test_so_many_rows_are_needed_with_no_loss_and_with_one(limit, level, without, with_one):
    for ones, count in ((0, without), (1, with_one)):
        assert binomial_p_value(losses(count, ones), limit) <= level < binomial_p_value(losses(count - 1, ones), limit)
