"""Average ranks against scipy, the tables of Demšar's article, and hand calculations."""

import math

import numpy as np
import pytest
from scipy.stats import friedmanchisquare, rankdata, studentized_range

from exitbench.benchmarks.statistics.average_ranks import average_ranks, friedman, mean_ranks, studentised_range
from tests.support.for_each import for_each


def test_ties_share_their_mean_rank_and_friedman_is_scipys() -> None:
    scores = np.array([[3.0, 2.0, 2.0], [1.0, 3.0, 2.0], [5.0, 4.0, 1.0], [9.0, 9.0, 9.0], [2.0, 1.0, 0.0]])
    ranked = average_ranks(scores)
    assert ranked.ranks.tolist() == pytest.approx([(1 + 3 + 1 + 2 + 1) / 5, (2.5 + 1 + 2 + 2 + 2) / 5, 12.5 / 5])
    assert ranked.p_value == pytest.approx(friedmanchisquare(*scores.T).pvalue)


@pytest.mark.parametrize(("signals", "quantile"), [(2, 1.960), (3, 2.343), (4, 2.569), (5, 2.728), (10, 3.164)])
def test_the_critical_difference_has_the_published_quantile(signals: int, quantile: float) -> None:
    """Demšar 2006, table 5(a)."""
    ranked = average_ranks(np.random.default_rng(0).normal(size=(14, signals)))
    assert ranked.critical_difference == pytest.approx(
        quantile * math.sqrt(signals * (signals + 1) / (6 * 14)), rel=3e-4
    )


def test_cliques_join_what_is_not_shown_to_differ() -> None:
    # Twelve tasks, four signals in the same order on each: ranks 1, 2, 3, 4 and a critical difference of 1.354.
    ranked = average_ranks(np.tile([4.0, 3.0, 2.0, 1.0], (12, 1)))
    assert ranked.critical_difference == pytest.approx(2.569 * math.sqrt(20 / 72), rel=1e-3)
    assert ranked.p_value < 1e-6 and ranked.cliques == [(0, 1), (1, 2), (2, 3)]


def test_without_friedmans_leave_all_signals_are_one_clique() -> None:
    scores = np.array([[1.0, 2.0, 3.0], [3.0, 2.0, 1.0]] * 3)
    assert average_ranks(scores).cliques == [(0, 1, 2)]
    assert average_ranks(np.ones((6, 3))).p_value == 1.0


def test_two_signals_are_tested_by_their_signs() -> None:
    """Six wins of six: twice one half to the sixth power."""
    assert average_ranks(np.tile([2.0, 1.0], (6, 1))).p_value == pytest.approx(2 * 0.5**6)
    assert average_ranks(np.ones((6, 2))).p_value == 1.0
    assert math.isnan(average_ranks(np.ones((6, 1))).p_value)


@for_each(tasks=(2, 6, 12), signals=(3, 7, 15), values=(2, 5, 40))
def test_ranks_p_values_and_quantiles_are_scipys(tasks: int, signals: int, values: int) -> None:
    """They are computed here because loading ``scipy.stats`` takes a second of every run."""
    scores = np.random.default_rng(tasks).integers(0, values, (tasks, signals)).astype(np.float64)
    scores[0] = np.arange(signals)  # not every task may be one tie
    ranks = np.stack([rankdata(row) for row in scores])
    assert np.array_equal([mean_ranks(row) for row in scores], ranks)
    assert friedman(ranks) == pytest.approx(friedmanchisquare(*scores.T).pvalue, rel=1e-12, abs=1e-300)
    expected = studentized_range.ppf(0.95, signals, np.inf)
    assert studentised_range(0.95, signals) == pytest.approx(expected, rel=1e-9)
