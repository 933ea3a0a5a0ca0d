"""ConsistentEE's policy on a frozen network: exit where a learned policy says that it pays.

.. math:: s_m = a_m = \\sigma(w_{m,y_m} \\cdot x_m + c_{m,y_m}), \\qquad \\text{exit when } s_m > \\tau

The reward of exiting at layer m is ``-CE_m - alpha m (1 - ML / M)``: the loss, and a price per layer that is high for
easy samples. ML, the memorised layer, is the lowest layer from which on every answer is right (M where the last one is
wrong). With ``pi_m = a_m prod_{j<m} (1 - a_j)``, the last layer taking what remains, all policies together maximise the
mean expected reward ``sum_m pi_m R_m``: on a frozen network it has a closed form, whose exact gradient is what the
published REINFORCE estimates. A feature is seen in its ``directions`` of largest variance, and a ridge holds the
weights, the intercepts too: a policy that only says never has no gradient left to learn from. ``form=linear`` has one
map per layer in place of one per layer and predicted class.

The reward asks whether exiting now costs less than going on, not whether the answer is right, so that DIS can be low
where the curve is not.

Reference: Zeng, Hong, Dai, Zhuang, Chen, *ConsistentEE: A Consistent and Hardness-Guided Early Exiting Method for
Accelerating Language Models Inference*, AAAI 2024.

Where published code differs: its policy is a network of 32 GELU units per layer; a third phase trains heads and
policies together, the paper's point, which is lost here (this is its second phase). It exits at 0.5, one operating
point for each alpha; here the threshold gives the whole curve. The price per layer is commented out in the public
snapshot, with alphas from 0.01 to 0.09 beside it, and its exploration is switched off, so that its eight copies of a
batch differ by dropout only.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import Array, require_features
from exitbench.signals.contract.hazard import chosen_rows, expected_cost, log_odds_of
from exitbench.signals.contract.hazard_signal import HazardSignal
from exitbench.signals.contract.layer import Layer
from exitbench.signals.contract.learned_signal import cross_entropies
from exitbench.signals.contract.logistic import sigmoid
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import TakenLayers


@dataclass(frozen=True)
class ConsistentEE(HazardSignal):
    """The probability with which the policy exits here."""

    name: ClassVar[str] = "consistentee"
    title: ClassVar[str] = "ConsistentEE"
    reference: ClassVar[Reference] = Reference(
        "ConsistentEE: A Consistent and Hardness-Guided Early Exiting Method for Accelerating Language Models "
        "Inference",
        2024,
        "https://arxiv.org/abs/2312.11882",
    )
    exits_when: ClassVar[Direction] = ">"
    exceptions: ClassVar[dict[str, str]] = {
        "direction_agrees_with_accuracy": "its policy learns whether exiting pays, not whether the answer is right"
    }

    alpha: float = parameter(0.03, grid=(0.01, 0.03, 0.09), at_least=0, help="the price of a layer, in nats of loss")

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        rows = chosen_rows(calibration, self.directions)
        right = np.stack([(layer.prediction == labels).cpu().numpy() for layer in calibration])
        layers = np.arange(1, len(calibration) + 1)[:, None]
        easy = 1.0 - memorised_layers(right) / len(calibration)
        losses = cross_entropies(TakenLayers(calibration, rows), labels[rows])
        costs = losses + self.alpha * layers * easy[rows.numpy()]
        return self.with_hazards(
            calibration, rows, lambda log_odds: expected_cost(log_odds, costs), intercept_penalty=self.penalty
        )

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.maps)
        features = require_features(self.text, layer)
        maps = self.tensors[layer.index - 1]
        if not maps:
            return layer.no_score()
        return sigmoid(log_odds_of(features, maps[0].to(features.device), layer.prediction))


def memorised_layers(right: NDArray[np.bool_]) -> Array:
    """The lowest layer from which on all answers are right, [samples], the depth where the last is wrong.

    ``right`` [layers, samples] says which answers are.
    """
    from_here_on = np.logical_and.accumulate(right[::-1])[::-1]
    return np.asarray(len(right) - np.maximum(from_here_on.sum(axis=0), 1) + 1.0)
