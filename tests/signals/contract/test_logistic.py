"""Logistic weights: the minimum of the stated convex problem, found by another optimiser, and its edges."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize
from scipy.special import expit

from exitbench.signals.contract.logistic import logistic_weights, probability


def drawn(rows: int = 300, columns: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng(seed)
    design = draw.normal(size=(rows, columns)) * [1, 10, 0.1, 3][:columns] + 5
    return design, draw.uniform(size=rows) < expit(design[:, 0] - 5 + 0.1 * (design[:, 1] - 5))


def objective(design, target, penalty, weight):
    """Mean log-loss plus half the penalty times the squared weights of the standardised columns."""
    scaled = (design - design.mean(axis=0)) / design.std(axis=0)

    def cost(parameters: np.ndarray) -> float:
        predictor = scaled @ parameters[:-1] + parameters[-1]
        losses = np.logaddexp(0, np.where(target, -predictor, predictor))
        return float(losses @ weight / weight.sum() + penalty / 2 * parameters[:-1] @ parameters[:-1])

    return cost, scaled


@pytest.mark.parametrize("penalty", [1e-4, 0.01, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
def test_the_weights_minimise_the_stated_problem(penalty: float, weighted: bool) -> None:
    design, target = drawn()
    weight = np.where(target, 3.0, 1.0) if weighted else np.ones(len(target))
    weights = logistic_weights(design, target, penalty=penalty, sample_weight=weight if weighted else None)
    cost, _ = objective(design, target, penalty, weight)
    best = minimize(cost, np.zeros(5), method="BFGS", options={"gtol": 1e-9})
    spread = design.std(axis=0)
    slopes = best.x[:-1] / spread
    np.testing.assert_allclose(weights[:-1], slopes, rtol=1e-4, atol=1e-6)
    assert weights[-1] == pytest.approx(best.x[-1] - slopes @ design.mean(axis=0), rel=1e-4, abs=1e-5)


def test_probabilities_are_those_of_the_weights() -> None:
    design, target = drawn()
    weights = logistic_weights(design, target, penalty=0.01)
    expected = expit(design @ np.array(weights[:-1]) + weights[-1])
    np.testing.assert_allclose(probability(torch.from_numpy(design), weights), expected, rtol=1e-12)


@pytest.mark.parametrize("answer", [True, False])
def test_targets_that_are_all_alike_give_no_weight_and_a_bounded_intercept(answer: bool) -> None:
    weights = logistic_weights(drawn()[0], np.full(300, answer), penalty=0.01)
    assert weights[:-1] == (0.0,) * 4
    share = 300.5 / 301 if answer else 0.5 / 301
    assert expit(weights[-1]) == pytest.approx(share)


def test_a_constant_column_gets_no_weight() -> None:
    design, target = drawn()
    design[:, 2] = 7.0
    weights = logistic_weights(design, target, penalty=0.01)
    assert weights[2] == 0.0
    others = logistic_weights(design[:, [0, 1, 3]], target, penalty=0.01)
    np.testing.assert_allclose([weights[0], weights[1], weights[3], weights[4]], others, rtol=1e-8)


def test_separated_samples_get_finite_weights() -> None:
    column = np.arange(20.0)[:, None]
    weights = logistic_weights(column, column[:, 0] > 9, penalty=0.01)
    assert np.isfinite(weights).all()
    assert weights[0] > 0
