import math

import numpy as np
import pytest
from scipy.stats import norm

from exitbench.benchmarks.statistics.power import claimable, networks_needed, rows_needed


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


@pytest.mark.parametrize("fixed", [0.0, 0.3])
def test_the_rows_needed_are_the_first_that_show_the_difference(fixed: float) -> None:
    """Against trying every number of rows."""
    rows, smallest, difference = 40, 1.7, 0.8
    first = next(
        n for n in range(1, 10_000) if math.hypot(fixed, math.sqrt((smallest**2 - fixed**2) * rows / n)) <= difference
    )
    assert rows_needed(rows, smallest, difference, not_from_rows=fixed) == first
    assert rows_needed(rows, smallest, 0.2, not_from_rows=0.2) is None


def test_the_networks_needed_are_the_first_that_show_the_difference() -> None:
    from_rows, spread, difference = 0.5, 2.3, 0.9
    first = next(k for k in range(1, 1000) if math.hypot(from_rows, spread / math.sqrt(k)) <= difference)
    assert networks_needed(from_rows, spread, difference) == first
    assert networks_needed(0.9, spread, 0.9) is None
    assert networks_needed(0.1, 0.0, 0.9) == 1


@pytest.mark.parametrize(("smallest", "difference"), [(2.0, 1e-160), (1e200, 1.0), (math.inf, 1.0)])
def test_no_number_is_enough_where_it_would_be_infinite(smallest: float, difference: float) -> None:
    assert rows_needed(1000, smallest, difference) is None
    assert networks_needed(0.0, smallest, difference) is None
