"""The sign test by groups against every way to turn groups around, and without groups against the binomial test."""

import itertools

import numpy as np
import pytest
from scipy.stats import binom, binomtest

from exitbench.benchmarks.statistics.paired_signs import binomial_cdf, binomial_pmf, sign_test
from tests.support.for_each import for_each


@for_each(seed=range(20))
def test_the_p_value_is_that_of_all_ways_to_turn_groups_around(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = rng.integers(-3, 5, 30)
    signs = rng.integers(-1, 2, 30) if seed % 2 else rng.choice([0, 1, 1], 30)
    sums = [int(signs[groups == group].sum()) for group in np.unique(groups)]
    observed = abs(sum(sums))
    flips = list(itertools.product((-1, 1), repeat=len(sums)))
    extreme = sum(abs(sum(sign * size for sign, size in zip(flip, sums, strict=True))) >= observed for flip in flips)
    assert sign_test(signs, groups) == pytest.approx(extreme / len(flips), rel=1e-12)


@pytest.mark.parametrize(("first", "second"), [(0, 0), (1, 0), (0, 6), (7, 7), (40, 61), (900, 700)])
def test_without_groups_it_is_mcnemars_exact_test(first: int, second: int) -> None:
    signs = np.array([1] * first + [-1] * second + [0] * 5)
    expected = 1.0 if first + second == 0 else binomtest(first, first + second).pvalue
    assert sign_test(signs) == pytest.approx(expected, rel=1e-9)
    assert sign_test(signs, np.arange(len(signs))) == pytest.approx(expected, rel=1e-9)


def test_a_group_of_equal_samples_counts_once() -> None:
    signs, groups = np.repeat([1, 1, 1, 1, 1, -1], 50), np.repeat(np.arange(6), 50)
    assert sign_test(signs) < 1e-20
    assert sign_test(signs, groups) == pytest.approx(binomtest(5, 6).pvalue)


def test_the_binomial_kernels_are_those_of_scipy_to_the_last_bit() -> None:
    chance = np.random.default_rng(0)
    for trials in (1, 7, 872, 5463):
        successes = np.unique(chance.integers(0, trials + 1, 200))
        for probability in (0.5, 0.01, 0.02, 0.97):
            assert (binomial_pmf(successes, trials, probability) == binom.pmf(successes, trials, probability)).all()
            kernel = [binomial_cdf(int(count), trials, probability) for count in (-1, *successes, trials + 3)]
            assert kernel == binom.cdf([-1, *successes, trials + 3], trials, probability).tolist()
