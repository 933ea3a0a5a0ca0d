"""Exits weighted by where a sample would leave, and a signal that ranks right above wrong (COSEE).

.. math:: L = \\frac1K \\sum_\\tau \\frac1n \\sum_{i,m} w_{im} \\mathrm{CE}_{im} + \\alpha L_\\mathrm{osc}, \\qquad
    w_{im} = \\operatorname{softmax}_m\\bigl(-\\beta_t |m - e_i(\\tau)|\\bigr), \\qquad \\beta_t = \\beta \\, t / T

.. math:: L_\\mathrm{osc} = \\operatorname{mean}_{m<M}
    \\max\\bigl(0,\\ \\bar s_m(\\text{right}) - \\bar s_m(\\text{wrong}) + \\varepsilon\\bigr)

Each step draws :math:`K` thresholds between the smallest and the largest signal of the epoch before (0 and 1 in the
first); :math:`e_i` is the first internal layer whose signal is below the threshold, else :math:`M`. The signal
:math:`s` is the normalised energy :math:`\\sigma(-\\log\\sum_c e^{l_c})`, the entropy over :math:`\\log C`, or minus
the largest softmax probability. The mean in :math:`L_\\mathrm{osc}` is over the layers that have right and wrong
samples in the batch, as in the code; the paper divides by :math:`M - 1`. The public code hides an exited sample by
setting its signal to -1; here exits are found without that.

Reference: He et al., *COSEE: Consistency-Oriented Signal-Based Early Exiting via Calibrated Sample Weighting
Mechanism*, AAAI 2025.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import sample_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class ConsistencyOriented(TrainingRecipe):
    """Losses weighted by the distance from where a sample would leave."""

    name: ClassVar[str] = "cosee"
    title: ClassVar[str] = "Consistency-oriented (COSEE)"
    reference: ClassVar[Reference] = Reference(
        "COSEE: Consistency-Oriented Signal-Based Early Exiting via Calibrated Sample Weighting Mechanism",
        2025,
        "https://arxiv.org/abs/2412.13236",
    )
    exit_rule: ClassVar[str] = "e-lang"
    published: ClassVar[str] = (
        "10 epochs at 2e-5, batches of 64, shared pooler; alpha, beta, rate and batch chosen per task"
    )

    signal: str = parameter("energy", choices=("energy", "entropy", "max-softmax"), help="what decides who leaves")
    alpha: float = parameter(0.1, grid=(0.001, 0.01, 0.1, 1.0), at_least=0, help="weight of the ranking loss")
    beta: float = parameter(10.0, grid=(0.05, 0.2, 1.0, 10.0), at_least=0, help="how sharp the weights are at the end")
    thresholds: int = parameter(5, at_least=1, help="drawn in every step")
    margin: float = parameter(0.3, at_least=0, help="wanted between right and wrong")

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def start(self, depth: int, rows: int) -> RecipeState:
        # The smallest is kept with its sign turned, so that the maximum over processes is the range of all.
        first = [1.0, 0.0] if self.signal == "max-softmax" else [0.0, 1.0]
        return {"range": torch.tensor(first), "seen": torch.full((2,), -torch.inf)}

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        signal = self.certainty_signal(exits.logits)
        self.note_range(signal.detach(), moment, state)
        low, high = -state["range"][0], state["range"][1]
        thresholds = low + (high - low) * torch.rand(self.thresholds, device=signal.device)
        distance = (layer_numbers(signal) - simulated_exits(signal.detach(), thresholds)[:, None]).abs()
        # [thresholds, layers, samples]
        weights = (-self.beta * moment.step / moment.steps * distance).softmax(dim=1)
        weighted = (weights * sample_losses(exits.logits, labels)).sum(dim=1).mean()
        right = exits.logits.argmax(dim=2) == labels
        return weighted + self.alpha * ranking_loss(signal[:-1], right[:-1], self.margin)

    def certainty_signal(self, logits: Tensor) -> Tensor:
        """The signal of every layer and sample, [layers, samples]: the smaller, the surer."""
        if self.signal == "energy":
            return torch.sigmoid(-logits.logsumexp(dim=2))
        shares = logits.log_softmax(dim=2)
        if self.signal == "entropy":
            return -(shares.exp() * shares).sum(dim=2) / math.log(logits.shape[2])
        return -shares.exp().amax(dim=2)

    def note_range(self, signal: Tensor, moment: Moment, state: RecipeState) -> None:
        """Take the range of the epoch before when a new one begins, and note what this step shows."""
        if moment.epoch_step == 0 and moment.epoch > 0:
            state["range"] = state["seen"]
            state["seen"] = torch.full_like(state["seen"], -torch.inf)
        shown = torch.stack([-signal.min(), signal.max()])
        state["seen"] = torch.maximum(state["seen"], shown)


def layer_numbers(signal: Tensor) -> Tensor:
    """1 to M, [layers, 1]."""
    return torch.arange(1, len(signal) + 1, device=signal.device)[:, None]


def simulated_exits(signal: Tensor, thresholds: Tensor) -> Tensor:
    """The first internal layer whose signal [layers, samples] is below a threshold, else M: [thresholds, samples]."""
    below = signal < thresholds[:, None, None]
    below[:, -1] = True
    first: Tensor = below.to(torch.uint8).argmax(dim=1) + 1
    return first


def ranking_loss(signal: Tensor, right: Tensor, margin: float) -> Tensor:
    """How far the mean signal of right samples is from being ``margin`` below that of wrong ones.

    Both are [layers, samples]; the mean over the layers that have both kinds of samples, 0 where none has.
    """
    rights, wrongs = right.sum(dim=1), (~right).sum(dim=1)
    both = (rights > 0) & (wrongs > 0)
    right_mean = (signal * right).sum(dim=1) / rights.clamp(min=1)
    wrong_mean = (signal * ~right).sum(dim=1) / wrongs.clamp(min=1)
    behind = (right_mean - wrong_mean + margin).clamp(min=0)
    return (behind * both).sum() / both.sum().clamp(min=1)
