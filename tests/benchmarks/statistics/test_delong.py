import math

import numpy as np
import pytest
from scipy import stats

from exitbench.benchmarks.measures.placements import exact_dot, placements
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.status import Difference
from exitbench.benchmarks.statistics.delong import dis_estimate, influence_differences, logit_interval
from tests.support.for_each import for_each


def dis_difference(first: Ranking, second: Ranking) -> Difference:
    """The live path of a run: values and influence values of one layer, tested in pairs."""
    values = np.array([ranking.dis()[0] for ranking in (first, second)])
    return influence_differences(values, [ranking.influence(1) for ranking in (first, second)], [(0, 1)])[0]


def made(seed: int, n: int = 60, levels: int = 7) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    right = rng.random(n) < 0.7
    shared = rng.normal(size=n) + 0.8 * right
    first, second = shared + rng.normal(size=n), shared + rng.normal(size=n)
    if seed % 2:
        first, second = np.round(first * levels / 4), np.round(second * levels / 4)
    return first, second, right


def components(certainty, right, strict=False):
    """DeLong's structural components, pair by pair."""
    tie = 0.0 if strict else 0.5
    table = np.array([[1.0 if e > h else tie if e == h else 0.0 for e in certainty[right]] for h in certainty[~right]])
    return table.mean(axis=1), table.mean(axis=0)


@pytest.mark.parametrize("strict", [False, True])
@for_each(seed=range(60))
def test_the_standard_error_is_delongs_from_structural_components(seed, strict):
    first, _, right = made(seed)
    hard, easy = components(first, right, strict)
    expected = 100 * math.sqrt(np.var(hard, ddof=1) / len(hard) + np.var(easy, ddof=1) / len(easy))
    ranking = Ranking(first[None], right[None])
    ties = "strict" if strict else "half"
    assert ranking.std_err(ties)[0] == pytest.approx(expected)
    assert np.linalg.norm(ranking.influence(1, ties)) == pytest.approx(expected)


@for_each(seed=range(60))
def test_a_paired_difference_uses_delongs_covariance(seed):
    first, second, right = made(seed)
    parts = [components(certainty, right) for certainty in (first, second)]
    covariance = sum(np.cov([parts[0][kind], parts[1][kind]]) / len(parts[0][kind]) for kind in (0, 1))
    value = parts[0][0].mean() - parts[1][0].mean()
    std_err = math.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
    difference = dis_difference(Ranking(first[None], right[None]), Ranking(second[None], right[None]))
    assert difference.value == pytest.approx(100 * value, abs=1e-9)
    assert difference.std_err == pytest.approx(100 * std_err)
    assert difference.p_value == pytest.approx(2 * stats.norm.sf(abs(value) / std_err))
    assert difference.high - difference.low == pytest.approx(2 * stats.norm.ppf(0.975) * 100 * std_err)


@pytest.mark.long
def test_the_standard_error_agrees_with_the_bootstrap():
    rng = np.random.default_rng(0)
    n = 400
    right = rng.random(n) < 0.75
    certainty = rng.normal(size=n) + right
    std_err = Ranking(certainty[None], right[None]).std_err()[0]
    drawn = []
    for _ in range(1500):
        rows = rng.integers(0, n, n)
        drawn.append(Ranking(certainty[None, rows], right[None, rows]).dis()[0])
    assert std_err == pytest.approx(np.std(drawn), rel=0.08)


@pytest.mark.long
def test_the_standard_error_with_folds_agrees_with_the_bootstrap():
    rng = np.random.default_rng(1)
    n = 400
    right, fold = rng.random(n) < 0.75, rng.integers(0, 5, n)
    certainty = rng.normal(size=n) + right
    std_err = Ranking(certainty[None], right[None], fold).std_err()[0]
    drawn = []
    for _ in range(800):
        rows = rng.integers(0, n, n)
        drawn.append(Ranking(certainty[None, rows], right[None, rows], fold[rows]).dis()[0])
    assert std_err == pytest.approx(np.std(drawn), rel=0.1)
    assert np.linalg.norm(Ranking(certainty[None], right[None], fold).influence(1)) == pytest.approx(std_err)


def test_equal_rankings_differ_by_nothing_with_p_one():
    first, _, right = made(2)
    difference = dis_difference(Ranking(first[None], right[None]), Ranking(np.arctan(first)[None], right[None]))
    assert (difference.value, difference.std_err, difference.p_value) == (0.0, 0.0, 1.0)
    assert difference.status == "ok"


def test_a_difference_without_variance_is_undefined():
    right = np.array([True] * 12 + [False] * 12)
    perfect, inverted = Ranking(right[None] * 1.0, right[None]), Ranking(right[None] * -1.0, right[None])
    difference = dis_difference(perfect, inverted)
    assert difference.value == 100.0
    assert difference.status == "undefined"
    assert math.isnan(difference.p_value)
    assert "no variance" in difference.reason


def test_the_interval_is_symmetric_on_the_logit_scale_and_stays_inside():
    low, high = logit_interval(97.0, 2.0)
    logit = [math.log(share / (100 - share)) for share in (low, 97.0, high)]
    assert logit[1] - logit[0] == pytest.approx(logit[2] - logit[1])
    assert logit[2] - logit[1] == pytest.approx(stats.norm.ppf(0.975) * 0.02 / (0.97 * 0.03))
    assert 0 < low < 97 < high < 100


def test_the_estimate_has_the_logit_interval_of_its_own_value_and_error():
    first, _, right = made(3)
    estimate = dis_estimate(Ranking(first[None], right[None]), 1, "half")
    share, error = estimate.value / 100, estimate.std_err / 100
    reach = stats.norm.ppf(0.975) * error / (share * (1 - share))
    expected = [100 / (1 + math.exp(-(math.log(share / (1 - share)) + side * reach))) for side in (-1, 1)]
    assert [estimate.low, estimate.high] == pytest.approx(expected)


@pytest.mark.parametrize(
    ("certainty", "right", "status", "reason"),
    [
        (np.arange(30.0), np.ones(30, bool), "undefined", "no hard sample"),
        (np.arange(30.0), np.zeros(30, bool), "undefined", "no easy sample"),
        (np.full(30, np.nan), np.arange(30) < 15, "undefined", "no score"),
        (np.arange(30.0) % 7, np.arange(30) < 21, "unreliable", None),
        (np.arange(30.0) % 7, np.arange(30) < 20, "ok", ""),
        (np.zeros(30), np.arange(30) < 15, "unreliable", "all pairs are tied"),
        (np.arange(30.0), np.arange(30) >= 15, "unreliable", "standard error is 0"),
    ],
)
def test_degenerate_layers_carry_a_status_and_a_reason(certainty, right, status, reason):
    estimate = dis_estimate(Ranking(certainty[None], right[None]), 1)
    assert estimate.status == status
    assert (reason is None and estimate.reason == "only 9 hard and 21 easy samples") or (
        reason or ""
    ) in estimate.reason
    assert math.isnan(estimate.value) == (status == "undefined")
    assert estimate.n == 30
    if status != "undefined":
        assert estimate.low <= estimate.value <= estimate.high


def test_folds_without_a_pair_are_undefined():
    right = np.arange(20) < 10
    estimate = dis_estimate(Ranking(np.arange(20.0)[None], right[None], right.astype(int)), 1)
    assert estimate.status == "undefined"
    assert estimate.reason == "no fold has both a hard and an easy sample"


def test_a_difference_of_undefined_scores_is_undefined():
    right = np.arange(40) < 20
    defined = Ranking(np.arange(40.0)[None], right[None])
    values, influence = np.array([defined.dis()[0], np.nan]), [defined.influence(1), np.full(40, np.nan)]
    assert influence_differences(values, influence, [(0, 1)])[0].status == "undefined"


@pytest.mark.long
def test_placements_of_millions_of_samples_add_up_exactly() -> None:
    """Half of three million samples are hard and all below: every one wins 1.5 million pairs, doubled."""
    half = 1_500_000
    for tied in (False, True):
        certainty = np.arange(2 * half, dtype=float)
        if tied:
            certainty = np.floor(certainty / 2)
        right = np.arange(2 * half) >= half
        placed = placements(certainty, right)
        for kind in (placed.hard, placed.easy):
            count, total, squares = kind.moments(strict=False)
            assert (count, total, squares) == (half, half * 2 * half, half * (2 * half) ** 2)
            assert squares > 2**63


@pytest.mark.parametrize("bits", [(20, 20), (30, 25), (47, 24), (62, 62)])
def test_sums_of_products_equal_those_of_python_integers(bits: tuple[int, int]) -> None:
    rng = np.random.default_rng(sum(bits))
    left, right = (rng.integers(2**size, size=999) for size in bits)
    assert exact_dot(left, right) == sum(int(a) * int(b) for a, b in zip(left, right, strict=True))


@pytest.mark.parametrize("value", [0.0, 100.0])
def test_the_logit_interval_at_the_ends_is_the_value_itself(value):
    assert logit_interval(value, 3.0) == (value, value)
