"""PALBERT's Q-exit on a frozen network: exit once the learned exit distribution has more than q of its mass behind.

.. math:: \\lambda_m = \\sigma(u_{m,y_m} \\cdot x_m + v_{m,y_m} \\cdot x_{m-1} + c_{m,y_m}), \\qquad
   s_m = F_m = 1 - \\prod_{j \\le m} (1 - \\lambda_j), \\qquad \\text{exit when } s_m > q

The hazards of all layers are fitted together: with ``pi_m = lambda_m prod_{j<m} (1 - lambda_j)``, the last layer taking
what remains, they minimise ``mean sum_m pi_m CE_m + beta KL(prior || pi)`` over the calibration samples, the prior
geometric with ``prior-rate``, cut off at the last layer. A feature is seen in its ``directions`` of largest variance,
there is no feature before layer 1 (``x_0 = 0``), and a ridge holds the weights. F can only grow from layer to layer.
``form=linear`` has one map per layer in place of one per layer and predicted class, and cannot say that a feature far
from the boundary on either side is safe.

The objective asks whether exiting now costs less loss than going on, not whether the answer is right: a sample that
every layer gets wrong may exit at once. So DIS can be low where the curve is not.

Reference: Balagansky, Gavrilov, *PALBERT: Teaching ALBERT to Ponder*, NeurIPS 2022; Banino, Balaguer, Blundell,
*PonderNet: Learning to Ponder*, 2021.

Where published code differs: it trains hazards together with the network, one head and one hazard (a 4-layer tanh
network on ``[x_m ; x_{m-1}]``) shared by all layers; here the network is frozen and every layer has a linear hazard.
In training its last layer gets ``lambda_M prod (1 - lambda_j)`` and not the remainder, and once F exceeds 0.95 later pi
are a constant. beta is 0.5 in its published commands, 0 by default. PonderNet's text has the divergence the other way
round and draws the exit at random; PALBERT exits at q = 0.5.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import Array, require_features
from exitbench.signals.contract.hazard import chosen_rows, expected_cost, log_odds_of, prior_divergence
from exitbench.signals.contract.hazard_signal import HazardSignal
from exitbench.signals.contract.layer import Layer, State
from exitbench.signals.contract.learned_signal import cross_entropies
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import TakenLayers


@dataclass(frozen=True)
class PALBERT(HazardSignal):
    """The mass of the learned exit distribution up to this layer."""

    name: ClassVar[str] = "palbert"
    title: ClassVar[str] = "PALBERT"
    reference: ClassVar[Reference] = Reference(
        "PALBERT: Teaching ALBERT to Ponder", 2022, "https://arxiv.org/abs/2204.03276"
    )
    exits_when: ClassVar[Direction] = ">"
    looks_back: ClassVar[bool] = True

    beta: float = parameter(0.5, grid=(0.1, 0.5, 2.0), at_least=0, help="the weight of the prior")
    prior_rate: float = parameter(0.1, above=0, written="prior-rate", help="the hazard of the prior, below 1")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior_rate >= 1:
            raise InputError(f"signal {self.name}: prior-rate must be below 1, found {self.prior_rate:g}")

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        rows = chosen_rows(calibration, self.directions)
        losses = cross_entropies(TakenLayers(calibration, rows), labels[rows])
        prior = geometric_prior(self.prior_rate, len(calibration))

        def objective(log_odds: Array) -> tuple[float, Array]:
            cost, by_cost = expected_cost(log_odds, losses)
            divergence, by_divergence = prior_divergence(log_odds, prior)
            return cost + self.beta * divergence, by_cost + self.beta * by_divergence

        return self.with_hazards(calibration, rows, objective)

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        self.require_layer(layer, self.maps)
        features = require_features(self.text, layer)
        staying, before = (torch.zeros(layer.samples, dtype=torch.float64), None) if state is None else state
        staying = staying.to(features.device)
        maps = [tensor.to(features.device) for tensor in self.tensors[layer.index - 1]]
        if maps:
            log_odds = log_odds_of(features, maps[0], layer.prediction)
            if before is not None:
                log_odds = log_odds + log_odds_of(before, maps[1], layer.prediction)
            # Summed as -ln(1 - lambda) = softplus(z), which loses nothing where a hazard is small.
            staying = staying + torch.logaddexp(torch.zeros_like(log_odds), log_odds)
        return -torch.expm1(-staying), (staying, features)


def geometric_prior(rate: float, depth: int) -> Array:
    """The shares of a geometric distribution over layers, [layers]; the last one takes what remains."""
    shares = rate * (1.0 - rate) ** np.arange(depth)
    shares[-1] = 1.0 - shares[:-1].sum()
    return np.asarray(shares)
