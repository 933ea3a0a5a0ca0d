"""Mahalanobis: exit when the feature is near a class, in units of how features of a class vary.

.. math:: d_c = (x - \\mu_c)^\\top S^{-1} (x - \\mu_c), \\qquad s_m = -\\min_c d_c, \\qquad
   \\text{exit when } s_m \\ge \\tau

with class means and the covariance S within classes, pooled over them, from the calibration samples of each layer.
``form=margin`` takes ``min over c != y of d_c, less d_y`` for the predicted class y: it asks whether the answer is
right, not whether the input is typical, is linear in the feature, and needs one vector per class.

Reference: Lee, Lee, Lee, Shin, *A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial
Attacks*, NeurIPS 2018.

Where published code differs: it adds noise to the input and weighs several layers by a regression on known outliers.
Its S is the plain estimate, which has no inverse with fewer samples than features; here S is shrunk towards a multiple
of the identity by Ledoit and Wolf's amount (from at most 4096 rows, evenly over the ids).
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Array,
    Packed,
    class_means,
    evenly,
    pack,
    require_features,
    require_rows,
    second_moment,
    squared_distances,
    unpack,
)
from exitbench.signals.contract.layer import FeatureRows, Input, Layer
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference

SHRINKAGE_ROWS = 4096
LEAST = 1e-9
"""The least shrinkage, which keeps a covariance without full rank invertible."""


@dataclass(frozen=True)
class Mahalanobis(LearnedSignal):
    """The nearness of the feature to a class, by the covariance within classes."""

    name: ClassVar[str] = "mahalanobis"
    title: ClassVar[str] = "Mahalanobis"
    reference: ClassVar[Reference] = Reference(
        "A Simple Unified Framework for Detecting Out-of-Distribution Samples and Adversarial Attacks",
        2018,
        "https://arxiv.org/abs/1807.03888",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    shift_invariant = True

    form: str = parameter("nearest", choices=("nearest", "margin"), help="nearness to any class, or to the answer's")
    maps: tuple[tuple[Packed, Packed], ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.maps is None

    @cached_property
    def tensors(self) -> list[tuple[Tensor, Tensor]]:
        """For each layer a matrix and what belongs to it: whitening and whitened means, or slopes and intercepts."""
        unpacked = [(unpack(first), unpack(second)) for first, second in self.maps or ()]
        if self.form == "margin":
            return unpacked
        return [(lower_triangle(entries, means.shape[1]), means) for entries, means in unpacked]

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        groups = labels.cpu().numpy()
        maps = []
        for layer in calibration[:-1]:
            features = require_rows(self.text, layer)
            means, _ = class_means(features, groups, layer.classes)
            whitening = within_whitening(features, means, groups)
            if self.form == "nearest":
                rounded = whitening.astype(np.float32)
                entries = rounded[np.tril_indices(len(rounded))]
                maps.append((pack(entries, "float32"), pack(means @ rounded.astype(np.float64).T)))
            else:
                slopes = means @ whitening.T @ whitening
                maps.append((pack(2.0 * slopes), pack((slopes * means).sum(axis=1))))
        return dataclasses.replace(self, maps=tuple(maps))

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.maps)
        values = require_features(self.text, layer).double()
        first, second = (tensor.to(values.device) for tensor in self.tensors[layer.index - 1])
        if self.form == "nearest":
            return -squared_distances(values @ first.T, second).amin(dim=1)
        nearness = values @ first.T - second  # minus the distance, but for what all classes share
        own = nearness.gather(1, layer.prediction[:, None])[:, 0]
        return own - nearness.scatter(1, layer.prediction[:, None], -torch.inf).amax(dim=1)


def within_whitening(features: FeatureRows, means: Array, groups: NDArray[np.int64]) -> Array:
    """The lower triangular A [width, width] with ``A^T A`` the inverse of the shrunk covariance within classes."""
    from scipy.linalg import cholesky, solve_triangular
    from sklearn.covariance import ledoit_wolf_shrinkage  # a second to load, and only a fit needs it

    covariance = second_moment(features, -means, groups) / len(groups)
    width = len(covariance)
    rows = evenly(len(groups), SHRINKAGE_ROWS)
    residuals = features[torch.from_numpy(rows)].double().cpu().numpy() - means[groups[rows]]
    amount = max(float(ledoit_wolf_shrinkage(residuals, assume_centered=True)), LEAST)
    scale = max(float(np.trace(covariance)) / width, 1e-12)
    shrunk = (1.0 - amount) * covariance + amount * scale * np.eye(width)
    return np.asarray(solve_triangular(cholesky(shrunk, lower=True), np.eye(width), lower=True))


def lower_triangle(entries: Tensor, width: int) -> Tensor:
    """A lower triangular matrix [width, width] from its entries, row by row."""
    matrix = torch.zeros((width, width), dtype=entries.dtype)
    rows, columns = torch.tril_indices(width, width)
    matrix[rows, columns] = entries
    return matrix
