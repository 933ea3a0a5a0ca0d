"""Logistic regression of right and wrong on a few numbers, by scikit-learn, as plain weights.

The convex problem is ``mean log-loss + penalty / 2 ||w||^2`` over standardised columns, intercept free. Newton's method
solves it to the last digits from zero, so a fit is a function of its rows alone. scikit-learn is imported here only.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.float64]
Weights = tuple[float, ...]
"""One weight for each column, then the intercept."""

LARGEST = 1e6
"""Inputs are cut here, far beyond anything a network says, so that sums of products stay finite."""


def logistic_weights(
    design: Array, target: NDArray[np.bool_], *, penalty: float, sample_weight: Array | None = None
) -> Weights:
    """The weights of the rows' columns, ``design`` [samples, columns], that predict ``target`` [samples] best.

    Where all targets are alike no column says anything: weights of 0, and the intercept of half a sample more.
    """
    design = np.clip(np.asarray(design, dtype=np.float64), -LARGEST, LARGEST)
    positives, rows = int(target.sum()), len(target)
    if positives in (0, rows):
        return (*(0.0 for _ in range(design.shape[1])), log_odds((positives + 0.5) / (rows + 1.0)))
    from sklearn.linear_model import LogisticRegression  # a second to load, and only a fit needs it

    mean, spread = design.mean(axis=0), design.std(axis=0)
    spread[spread < 1e-12 * (1.0 + np.abs(mean))] = np.inf  # a constant column says nothing
    total = float(rows if sample_weight is None else sample_weight.sum())
    model = LogisticRegression(C=1.0 / (penalty * total), solver="newton-cholesky", tol=1e-10, max_iter=200)
    design -= mean  # its own since it was clipped
    design /= spread
    model.fit(design, target, sample_weight=sample_weight)
    weights = model.coef_[0] / spread
    return (*map(float, weights), float(model.intercept_[0] - weights @ mean))


def log_odds(share: float) -> float:
    """The logarithm of the odds of a share strictly between 0 and 1."""
    return math.log(share / (1.0 - share))


def probability(columns: Tensor, weights: Weights) -> Tensor:
    """The probability that the weights give to each row, [samples] float64; ``columns`` [samples, columns] float64."""
    slopes = torch.tensor(weights[:-1], dtype=torch.float64, device=columns.device)
    predictor = (columns.clamp(-LARGEST, LARGEST) * slopes).sum(dim=1) + weights[-1]
    return sigmoid(predictor)


def sigmoid(predictor: Tensor) -> Tensor:
    """The logistic function; not torch's, whose last bit differs within a batch."""
    return predictor.neg().exp().add(1.0).reciprocal()
