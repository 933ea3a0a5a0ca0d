"""EENet: estimated correctness of each exit, less a threshold of its own that fits a budget.

.. math:: s_m = q_m - T_m, \\qquad \\text{exit when } s_m \\ge \\tau

q is the estimated probability that the answer of layer m is right, a logistic regression on the layer's probabilities,
the largest of them, ``1 - H / ln C`` and the estimates ``q_1 .. q_{m-1}`` of the layers before. The thresholds T are
fitted for one ``budget`` (a speed-up): each exit is assigned a share of the samples, and T_m is the q_m of the least
certain sample within the share of those that are still there. So ``tau = 0`` runs at the budget, and one shift of all
thresholds, tau, gives the rest of the curve.

The shares are the mean over samples of the assignment ``a_m ~ q_m exp(-lambda m / M)`` over all exits, with the one
lambda at which the expected cost is the budget: of all assignments with that cost the nearest, in Kullback-Leibler
divergence, to the one proportional to estimated correctness.

Reference: Ilhan, Chow, Hu, Huang, Tekin, Wei, Wu, Lee, Kompella, Latapie, Liu, *Adaptive Deep Neural Network Inference
Optimization with EENet*, WACV 2024.

Where published code differs: as stored it does not run (an undefined name, a broadcast over pairs of samples). It
estimates q by a clamped linear map without intercept, and assigns by a small network with the divergence and the budget
as penalties, by Adam, the best of ten restarts; here both problems are convex and solved.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.logistic import Array, Weights, logistic_weights, probability
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import few_enough

PENALTY = 0.01


@dataclass(frozen=True)
class EENet(LearnedSignal):
    """Estimated correctness above each exit's own threshold."""

    name: ClassVar[str] = "eenet"
    title: ClassVar[str] = "EENet"
    reference: ClassVar[Reference] = Reference(
        "Adaptive Deep Neural Network Inference Optimization with EENet", 2024, "https://arxiv.org/abs/2301.07099"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    budget: float = parameter(
        2.0, grid=(1.5, 2.0, 3.0), above=1, help="the speed-up that the thresholds are fitted for"
    )
    weights: tuple[Weights, ...] | None = learned()
    thresholds_fitted: tuple[float, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.weights is None

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        if self.budget > len(calibration):
            raise InputError(f"signal {self.text}: {len(calibration)} layers cannot be {self.budget:g} times faster")
        calibration, labels = few_enough(calibration, labels, calibration[0].classes + 2 + len(calibration))
        every_weights: list[Weights] = []
        estimates: Tensor | None = None
        for layer in calibration:
            columns = seen(layer, estimates)
            right = (layer.prediction == labels).cpu().numpy()
            every_weights.append(logistic_weights(columns.cpu().numpy(), right, penalty=PENALTY))
            estimates = extended(estimates, probability(columns, every_weights[-1]))
        assert estimates is not None
        correctness = estimates.cpu().numpy().T
        thresholds = quota_thresholds(correctness[:-1], assigned_shares(correctness, 1.0 / self.budget))
        return dataclasses.replace(self, weights=tuple(every_weights[:-1]), thresholds_fitted=thresholds)

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        self.require_layer(layer, self.weights)
        assert self.weights is not None and self.thresholds_fitted is not None
        estimate = probability(seen(layer, state), self.weights[layer.index - 1])
        return estimate - self.thresholds_fitted[layer.index - 1], extended(state, estimate)


def seen(layer: Layer, estimates: Tensor | None) -> Tensor:
    """What correctness is estimated from, [samples, classes + 2 + layers before]."""
    certainty = 1.0 - layer.entropy / math.log(layer.classes)
    own = torch.cat([layer.probabilities, layer.probabilities.amax(dim=1)[:, None], certainty[:, None]], dim=1)
    return own if estimates is None else torch.cat([own, estimates], dim=1)


def extended(estimates: Tensor | None, estimate: Tensor) -> Tensor:
    """The estimates of the layers so far, [samples, layers]."""
    return estimate[:, None] if estimates is None else torch.cat([estimates, estimate[:, None]], dim=1)


def assigned_shares(correctness: Array, cost: float) -> Array:
    """The share of samples assigned to each exit, [layers], such that the mean cost (layer / depth) is ``cost``."""
    from scipy.optimize import brentq  # half a second to load, and only a fit needs it

    costs = np.arange(1, len(correctness) + 1) / len(correctness)
    logs = np.log(np.maximum(correctness, 1e-12))

    def shares(tilt: float) -> Array:
        tilted = logs - tilt * costs[:, None]
        assigned = np.exp(tilted - tilted.max(axis=0))
        return np.asarray((assigned / assigned.sum(axis=0)).mean(axis=1))

    bound = 1.0
    while shares(bound) @ costs > cost or shares(-bound) @ costs < cost:
        bound *= 2.0
        if bound > 2.0**20:  # a budget at the very edge: all at the first layer
            return shares(bound)
    return shares(brentq(lambda tilt: float(shares(tilt) @ costs) - cost, -bound, bound, xtol=1e-12))


def quota_thresholds(correctness: Array, shares: Array) -> tuple[float, ...]:
    """One threshold per internal layer, halfway below the last sample that its share lets go, in order of layers."""
    staying = np.arange(correctness.shape[1])
    thresholds = []
    for row, share in zip(correctness, shares, strict=False):
        quota = min(round(share * correctness.shape[1]), len(staying))
        ranked = -np.sort(-row[staying])
        if len(ranked) == 0:
            threshold = float(np.median(row))
        elif quota == 0:
            threshold = (float(ranked[0]) + 1.0) / 2.0
        elif quota == len(ranked):
            threshold = float(ranked[-1])
        else:
            threshold = float((ranked[quota - 1] + ranked[quota]) / 2.0)
        thresholds.append(threshold)
        staying = staying[row[staying] < threshold]
    return tuple(thresholds)
