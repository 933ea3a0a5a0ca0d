"""The influence of a sample on AURC is how fast the area moves when the sample counts a little more."""

import numpy as np
import pytest

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.statistics.aurc_influence import risk_influence
from tests.support.for_each import for_each

SEEDS = range(30)


def made(seed, *, ties):
    rng = np.random.default_rng(seed)
    samples, layers = int(rng.integers(6, 30)), 3
    certainty = rng.integers(0, 5, (layers, samples)).astype(float) if ties else rng.normal(size=(layers, samples))
    return certainty, rng.random((layers, samples)) < 0.6


def weighted_area(certainty, right, weights):
    """AURC as a share, sample i counting ``weights[i]`` times; no two certainties are equal."""
    order = np.argsort(-certainty)
    weight, wrong = weights[order], ~right[order]
    risks = [(weight[: k + 1] * wrong[: k + 1]).sum() / weight[: k + 1].sum() for k in range(len(order))]
    return float((weight * risks).sum() / weight.sum())


@pytest.mark.long
@for_each(seed=SEEDS)
def test_the_influence_is_the_derivative_of_the_area(seed):
    certainty, right = made(seed, ties=False)
    samples, step = right.shape[1], 1e-5
    for layer in range(len(right)):
        area, excess = risk_influence(Ranking(certainty, right), layer + 1)
        share = min(1 - right[layer].mean(), 1 - 0.5 / samples)
        for i in range(samples):
            up, down = np.ones(samples), np.ones(samples)
            up[i] += step
            down[i] -= step
            slope = weighted_area(certainty[layer], right[layer], up)
            slope = (slope - weighted_area(certainty[layer], right[layer], down)) / (2 * step)
            assert area[i] == pytest.approx(100 * slope, abs=1e-6)
            error = (not right[layer, i]) - (1 - right[layer].mean())
            assert excess[i] - area[i] == pytest.approx(100 * np.log(1 - share) * error / samples, abs=1e-9)


@for_each(seed=SEEDS)
def test_tied_samples_share_the_mean_of_their_group(seed):
    certainty, right = made(seed, ties=True)
    samples = right.shape[1]
    for layer in range(len(right)):
        sure, wrong = certainty[layer], ~right[layer]
        order = sorted(range(samples), key=lambda i, sure=sure: -sure[i])
        expected = [np.mean([wrong[j] for j in order if sure[j] == sure[i]]) for i in order]
        risk = [sum(expected[: k + 1]) / (k + 1) for k in range(samples)]
        later = [sum(1 / (k + 1) for k in range(start, samples)) for start in range(samples)]
        later_risk = [sum(risk[k] / (k + 1) for k in range(start, samples)) for start in range(samples)]
        area, _ = risk_influence(Ranking(certainty, right), layer + 1)
        for i in range(samples):
            group = [k for k in range(samples) if sure[order[k]] == sure[i]]
            mean_risk, after, after_risk = (
                np.mean([quantity[k] for k in group]) for quantity in (risk, later, later_risk)
            )
            literal = mean_risk - np.mean(risk) + wrong[i] * after - after_risk
            assert area[i] == pytest.approx(100 * literal / samples)


@pytest.mark.parametrize("ties", [False, True])
@for_each(seed=SEEDS)
def test_each_fold_has_its_own_area_and_counts_by_its_size(seed, ties):
    certainty, right = made(seed, ties=ties)
    folds = np.arange(right.shape[1]) % 3
    for layer in (1, 2, 3):
        influences = risk_influence(Ranking(certainty, right, folds), layer)
        for fold in range(3):
            rows = folds == fold
            alone = risk_influence(Ranking(certainty[:, rows], right[:, rows]), layer)
            for whole, part in zip(influences, alone, strict=True):
                np.testing.assert_allclose(whole[rows], part * rows.sum() / len(rows))


def test_a_layer_without_scores_has_no_influence():
    certainty, right = made(0, ties=False)
    certainty[0] = np.nan
    assert not np.any(risk_influence(Ranking(certainty, right), 1))
