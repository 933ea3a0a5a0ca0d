"""JEI gate: a small gate per exit that learns from which layer on exiting is worth it (JEI-DNN).

.. math:: g_m = \\sigma(v_m \\cdot [p_{max}, H(p), p_{(1)} - p_{(2)}, H(p^2 / \\textstyle\\sum p^2)] + c_m), \\qquad
   \\text{exit when } g_m \\ge \\tau

For every calibration sample the best exit weighs its loss against its cost, ``e* = argmin_m CE_m + lambda m / M`` over
all layers, the last one included; the gate of layer m learns ``m >= e*`` by logistic regression, positives weighing
``min((n - n_m) / n_m, 5)``, with n_m the number of samples whose best exit is m.

Reference: Regol, Chataoui, Coates, *Jointly-Learned Exit and Inference for a Dynamic Neural Network: JEI-DNN*,
ICLR 2024.

Where published code differs: it trains heads and gates in turn, here the heads stay as they are; it takes costs in
operations and the n_m from a validation split; and it combines the gates into one exit probability per layer and exits
at 0.5, one operating point per lambda. Here g_m is the score and a threshold gives the whole curve. With two classes
all four inputs are functions of one number, so the gate can only align layers with each other.

A low DIS is the definition, not a defect: ``m >= e*`` asks whether going on is worth its cost, not whether the answer
is right, and what no layer gets right is worth nothing more. On the committed MNLI cache (lambda 0.7) 26, 33 and 73% of
the samples worth exiting by layer 2, 6 and 10 are right, against 51, 71 and 100% of the others, so that even the target
itself, known beforehand, has a DIS of 40, 33 and 48; a gate by scikit-learn from a literal loop has 49, 43 and 68.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.learned_signal import LearnedSignal, cross_entropies
from exitbench.signals.contract.logistic import Weights, logistic_weights, probability
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference
from exitbench.signals.contract.taken_layers import logit_blocks
from exitbench.signals.margin import logit_margin

PENALTY = 1e-4
HEAVIEST = 5.0
"""The most that a sample worth an exit counts, in samples that are not."""


@dataclass(frozen=True)
class JEIGate(LearnedSignal):
    """The probability that exiting here or earlier was the best choice."""

    name: ClassVar[str] = "jei-gate"
    title: ClassVar[str] = "JEI gate"
    reference: ClassVar[Reference] = Reference(
        "Jointly-Learned Exit and Inference for a Dynamic Neural Network: JEI-DNN",
        2024,
        "https://arxiv.org/abs/2310.09163",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    tradeoff: float = parameter(
        0.7, grid=(0.15, 0.7), at_least=0, help="the cost of the whole network, in nats of loss"
    )
    gates: tuple[Weights, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.gates is None

    def told_apart(self) -> tuple[str, str]:
        return "worth exiting by then", "not"

    def lessons(self, calibration: Sequence[Layer], labels: Tensor) -> Iterator[Tensor]:
        best = best_exits(calibration, labels, self.tradeoff)
        return (best <= index for index in range(1, len(calibration) + 1))

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        best = best_exits(calibration, labels, self.tradeoff).cpu().numpy()
        gates = []
        for layer in calibration[:-1]:
            worth, here = best <= layer.index, int((best == layer.index).sum())
            heavier = HEAVIEST if here == 0 else min((len(best) - here) / here, HEAVIEST)
            weight = np.where(worth, heavier, 1.0)
            shapes = torch.cat([shape_of(block) for block in logit_blocks(layer)]).cpu().numpy()
            gates.append(logistic_weights(shapes, worth, penalty=PENALTY, sample_weight=weight))
        return dataclasses.replace(self, gates=tuple(gates))

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.gates)
        assert self.gates is not None
        return probability(shape_of(layer), self.gates[layer.index - 1])


def best_exits(calibration: Sequence[Layer], labels: Tensor, tradeoff: float) -> Tensor:
    """The layer (from 1) with the smallest loss plus cost for each sample, the first on a tie, [samples]."""
    depth = len(calibration)
    costs = cross_entropies(calibration, labels) + tradeoff * np.arange(1, depth + 1)[:, None] / depth
    return torch.from_numpy(costs.argmin(axis=0) + 1)


def shape_of(layer: Layer) -> Tensor:
    """The gate's four inputs, [samples, 4]: largest probability, entropy, margin, and entropy when sharpened."""
    logs = layer.log_probabilities
    largest = logs.amax(dim=1).exp()
    doubled = 2.0 * logs
    sharpened = doubled - torch.logsumexp(doubled, dim=1, keepdim=True)
    sharper = -(sharpened.exp() * sharpened).sum(dim=1)
    margin = -torch.expm1(-logit_margin(layer)) * largest
    return torch.stack([largest, layer.entropy, margin, sharper], dim=1)
