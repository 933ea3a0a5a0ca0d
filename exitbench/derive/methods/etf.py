"""A fixed simplex head (DisentangledEE): class directions that are as far apart as they can be, and never trained.

.. math:: l_m = \\hat x_m E_m, \\qquad
    \\hat x_m = \\frac{\\gamma_m z_m + \\beta_m}{\\|\\gamma_m z_m + \\beta_m\\|}, \\qquad
    E_m = \\sqrt{\\tfrac{C}{C-1}} \\, P_m (I - \\tfrac1C 1 1^\\top)

``z`` is the feature standardised by the training rows (a batch norm in evaluation), ``P`` [width, classes] has
orthonormal columns from a seeded random matrix. Only ``gamma`` and ``beta`` are fitted, by cross entropy on the cosines
without a temperature, as published; from 1 and 0 by L-BFGS over all rows instead of batches. The published network also
has adapters inside its layers, which a cache cannot have: this is its head alone. What the head reads, the unit vector
``x^``, is the feature of the derived cache, so its heads are linear. The last layer keeps the network's own head.

Reference: Ji, Wang, Li, Chen, Wang, *Early Exit with Disentangled Representation and Equiangular Tight Frame*,
Findings of ACL 2023.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import Array, feature_blocks, label_targets
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.descent import minimum
from exitbench.derive.kept_rows import KeptRows
from exitbench.derive.linear_answers import LinearAnswers
from exitbench.derive.softmax_regression import Blocks, Targets, log_softmax, moments
from exitbench.errors import InputError
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference

EPSILON = 1e-5
"""Added to the variance, as torch's batch norm does."""


class SimplexAnswers(LinearAnswers):
    """Cosines with fixed directions; ``maps`` has a slope and a shift [width] from feature to ``gamma z + beta``."""

    def __init__(self, directions: list[Tensor], maps: list[tuple[Tensor, Tensor]]) -> None:
        super().__init__([(each.T, torch.zeros(each.shape[1], dtype=torch.float64)) for each in directions])
        self.maps = maps

    def features(self, source: Cache, layer: int, rows: slice) -> Tensor:
        slope, shift = self.maps[layer - 1]
        values = source.features(layer, rows).double() * slope + shift
        lengths: Tensor = torch.linalg.vector_norm(values, dim=1, keepdim=True)
        return values / lengths.clamp(min=1e-12)


@dataclass(frozen=True)
class SimplexHeads(AnswerMethod):
    """Fixed class directions on normalised features."""

    name: ClassVar[str] = "etf"
    title: ClassVar[str] = "Fixed simplex heads (DisentangledEE)"
    reference: ClassVar[Reference] = Reference(
        "Early Exit with Disentangled Representation and Equiangular Tight Frame",
        2023,
        "https://aclanthology.org/2023.findings-acl.889",
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features", "labels"})

    seed: int = parameter(0, at_least=0, help="of the random directions")

    def fit(self, calibration: Cache) -> SimplexAnswers:
        targets = label_targets(calibration)
        directions, maps = [], []
        for layer in range(1, calibration.layers):
            width = calibration.widths[layer - 1] or 0
            if width < calibration.classes:
                raise InputError(
                    f"method {self.text} needs at least as many features as classes, found {width} features and "
                    f"{calibration.classes} classes at layer {layer}"
                )
            simplex = simplex_directions(width, calibration.classes, self.seed, layer)
            slope, shift = fitted_map(feature_blocks(calibration, layer), simplex, targets)
            directions.append(torch.from_numpy(simplex))
            maps.append((torch.from_numpy(slope), torch.from_numpy(shift)))
        return SimplexAnswers(directions, maps)


def simplex_directions(width: int, classes: int, seed: int, layer: int) -> Array:
    """Unit vectors [width, classes], every two of which have the cosine ``-1 / (classes - 1)``."""
    random = np.random.default_rng([seed, layer]).normal(size=(width, classes))
    orthonormal, upper = np.linalg.qr(random)
    orthonormal = orthonormal * np.sign(np.diag(upper))  # the library may choose either sign
    centred: Array = np.eye(classes) - 1.0 / classes
    return np.asarray(np.sqrt(classes / (classes - 1)) * orthonormal @ centred)


def fitted_map(read: Blocks, simplex: Array, targets: Targets) -> tuple[Array, Array]:
    """Slope and shift, [width] each, from a feature to ``gamma z + beta``, of smallest cross entropy on the cosines."""
    mean, variance = moments(read)
    deviation = np.sqrt(variance + EPSILON)
    width, samples = len(mean), targets.shape[0]
    scaled_room, unit_room, pull_room, along_room = (KeptRows() for _ in range(4))

    def objective(flat: Array) -> tuple[float, Array]:
        gamma, beta = flat[:width], flat[width:]
        loss, slopes, start = 0.0, np.zeros(2 * width), 0
        for block in read():
            scaled = np.subtract(block, mean, out=scaled_room(*block.shape))
            scaled /= deviation
            unit = np.multiply(gamma, scaled, out=unit_room(*block.shape))
            unit += beta
            pull = np.square(unit, out=pull_room(*block.shape))
            lengths = np.maximum(np.sqrt(pull.sum(axis=1, keepdims=True)), 1e-12)
            unit /= lengths
            said = log_softmax(unit @ simplex)
            wanted = targets[start : start + len(block)]
            start += len(block)
            loss -= float((wanted * said).sum()) / samples
            np.matmul((np.exp(said) - wanted) / samples, simplex.T, out=pull)
            along = np.multiply(unit, pull, out=along_room(*block.shape)).sum(axis=1, keepdims=True)
            unit *= along
            pull -= unit
            pull /= lengths
            scaled *= pull
            slopes += np.concatenate([scaled.sum(axis=0), pull.sum(axis=0)])
        return loss, slopes

    begin = np.concatenate([np.ones(width), np.zeros(width)])
    best = minimum(objective, begin, gradient=1e-6, steps=200)
    gamma, beta = best[:width], best[width:]
    return gamma / deviation, beta - gamma * mean / deviation
