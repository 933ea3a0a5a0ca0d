"""BEEM: exit when layers that agree have together been confident enough.

.. math:: S_1 = 0, \\quad S_m = S_{m-1} + w_m \\max_c p_{m,c} \\text{ if } y_m = y_{m-1}, \\text{ else } 0, \\qquad
   \\text{exit when } S_m \\ge \\tau

Layer 1 has nothing to agree with and no score. The weights: ``weights=cost`` takes the share of the network that has
been run, ``m / M`` (BEEM-C); ``weights=accuracy`` takes each exit's accuracy on the calibration samples (BEEM-A);
``weights=uniform`` takes 1; ``weights=code`` takes ``0.1 (m - 1)``, what the public code has written in.

Reference: Bajpai, Hanawal, *BEEM: Boosting Performance of Early Exit DNNs using Multi-Exit Classifiers as Experts*,
ICLR 2025.

Where published code differs: only its ALBERT file does this; its BERT file computes S and then exits by PABEE's
counter. The paper's optimisation of the threshold over exit error rates is left to this suite's own choice of
thresholds. With uniform weights and every confidence 1 it is PABEE.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class BEEM(ExitSignal):
    """The weighted confidence of the layers in a row that agree."""

    name: ClassVar[str] = "beem"
    title: ClassVar[str] = "BEEM"
    reference: ClassVar[Reference] = Reference(
        "BEEM: Boosting Performance of Early Exit DNNs using Multi-Exit Classifiers as Experts",
        2025,
        "https://arxiv.org/abs/2502.00745",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    weights: str = parameter(
        "cost", choices=("cost", "accuracy", "uniform", "code"), help="how much a layer's confidence counts"
    )
    accuracies: tuple[float, ...] | None = learned()

    @property
    def first_exit_layer(self) -> int:
        return 2

    @property
    def first_scored_layer(self) -> int:
        return 2

    @property
    def needs_fit(self) -> bool:
        return self.weights == "accuracy" and self.accuracies is None

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        if self.weights != "accuracy":
            return self
        accuracies = tuple(float((layer.prediction == labels).double().mean()) for layer in calibration)
        return dataclasses.replace(self, accuracies=accuracies)

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        if state is None:
            return layer.no_score(), (layer.prediction, torch.zeros_like(layer.no_score()))
        previous, total = state
        confidence = layer.log_probabilities.amax(dim=1).exp()
        total = torch.where(layer.prediction == previous, total + self._weight(layer) * confidence, 0.0)
        return total, (layer.prediction, total)

    def _weight(self, layer: Layer) -> float:
        """How much the confidence of this layer counts."""
        if self.weights == "cost":
            return layer.index / layer.depth
        if self.weights == "code":
            return 0.1 * (layer.index - 1)
        if self.weights == "uniform":
            return 1.0
        if self.accuracies is None:
            raise InputError(f"signal {self.text} must be fitted on a calibration set before it can score")
        if layer.index > len(self.accuracies):
            raise InputError(
                f"signal {self.text} was fitted on {len(self.accuracies)} layers, found layer {layer.index}"
            )
        return self.accuracies[layer.index - 1]
