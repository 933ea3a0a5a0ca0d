"""Geometric ensembles (Zero Time Waste): an exit answers with all exits so far.

.. math:: z_m = \\frac1m \\sum_{j \\le m} w_{mj} \\ln p_j + \\beta_m, \\qquad w_{mj} \\ge 0

``weights=fitted`` takes the weights and the shift of smallest cross entropy with the labels, for every exit on its own.
Published code writes ``w = exp(v)`` and descends from random starts; in ``w`` itself the problem is convex, so it is
solved there, with a bound at 0, from 1. A penalty of 0.0001 on ``w - 1`` and the shift keeps it finite where labels are
separated. ``weights=equal`` is 1 and no shift: the geometric mean, which needs no label. The arithmetic mean of the
published code is not here. The last layer is not part of any ensemble, as published.

Reference: Wołczyk et al., *Zero Time Waste: Recycling Predictions in Early Exit Neural Networks*, NeurIPS 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import Array, label_targets, stored_logit_blocks
from exitbench.derive.contract import AnswerMethod, DerivedAnswers, Need, WeightBias
from exitbench.derive.descent import minimum
from exitbench.derive.softmax_regression import Blocks, Targets, log_softmax
from exitbench.errors import InputError
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference

PENALTY = 1e-4


class EnsembleAnswers(DerivedAnswers):
    """Weighted sums of log-probabilities; ``members`` has weights [exits so far] and a shift [classes] per exit."""

    not_linear = "an ensemble's answer is a sum of log-probabilities, which is not linear in the features"

    def __init__(self, members: list[WeightBias]) -> None:
        self.members = members

    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        logs: list[Tensor] = []
        answers = []
        for layer, (weights, shift) in enumerate(self.members, 1):
            logs.append(torch.log_softmax(source.logits(layer, rows).double(), dim=1))
            answers.append(torch.einsum("j,jnc->nc", weights / layer, torch.stack(logs)) + shift)
        return answers


@dataclass(frozen=True)
class GeometricEnsemble(AnswerMethod):
    """A weighted geometric mean of all exits so far."""

    name: ClassVar[str] = "ensemble"
    title: ClassVar[str] = "Geometric ensemble (ZTW)"
    reference: ClassVar[Reference] = Reference(
        "Zero Time Waste: Recycling Predictions in Early Exit Neural Networks", 2021, "https://arxiv.org/abs/2106.05409"
    )
    needs: ClassVar[frozenset[Need]] = frozenset()

    weights: str = parameter("fitted", choices=("fitted", "equal"), help="by the labels, or 1 each")

    def fit(self, calibration: Cache) -> EnsembleAnswers:
        classes, internal = calibration.classes, range(1, calibration.layers)
        if self.weights == "equal":
            none = torch.zeros(classes, dtype=torch.float64)
            return EnsembleAnswers([(torch.ones(layer, dtype=torch.float64), none) for layer in internal])
        if not calibration.labelled:
            raise InputError(f"method {self.text} learns from labels, which cache {calibration.name} does not hold")
        targets, members = label_targets(calibration), []
        for layer in internal:
            weights, shift = fitted_weights(stored_logit_blocks(calibration, range(1, layer + 1)), layer, targets)
            members.append((torch.from_numpy(weights), torch.from_numpy(shift)))
        return EnsembleAnswers(members)


def fitted_weights(read: Blocks, exits: int, targets: Targets) -> tuple[Array, Array]:
    """The weights [exits] and shift [classes] of smallest cross entropy.

    ``read`` gives blocks [exits, samples, classes] of logits. They serve as well as log-probabilities: the two differ
    by a number for each row and exit, which the softmax of the sum does not see, nor does the gradient, because a
    residual's classes add up to 0.
    """
    samples, classes = targets.shape

    def objective(flat: Array) -> tuple[float, Array]:
        weights, shift = flat[:exits], flat[exits:]
        away = weights - 1.0
        loss = PENALTY / 2 * float(away @ away + shift @ shift)
        slopes, start = PENALTY * np.concatenate([away, shift]), 0
        for logits in read():
            said = log_softmax(np.tensordot(weights / exits, logits, axes=1) + shift)
            wanted = targets[start : start + len(said)]
            start += len(said)
            residual = (np.exp(said) - wanted) / samples
            loss -= float((wanted * said).sum()) / samples
            pulls = np.tensordot(logits, residual, axes=([1, 2], [0, 1])) / exits
            slopes += np.concatenate([pulls, residual.sum(axis=0)])
        return loss, slopes

    start = np.concatenate([np.ones(exits), np.zeros(classes)])
    bounds: list[tuple[float | None, None]] = [(0.0, None)] * exits + [(None, None)] * classes
    best = minimum(objective, start, gradient=1e-8, bounds=bounds)
    return best[:exits], best[exits:]
