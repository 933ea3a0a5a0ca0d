"""One head for all exits, weighted by the probability of leaving there (PALBERT).

.. math:: L = \\sum_m \\operatorname{mean}_i \\pi_{im} \\mathrm{CE}_{im} + \\beta\\, \\mathrm{KL}(q \\,\\|\\, \\pi),
    \\qquad \\pi_m = \\lambda_m \\prod_{j<m} (1 - \\lambda_j)

with the hazards :math:`\\lambda` of the addition ``hazard`` and a geometric prior :math:`q` whose rest lies on the
last exit. As in the public code :math:`\\pi` is not normalised, and once a sample has left with a probability above
0.95 its later :math:`\\pi` are 0.05 / M. The public code trains ALBERT with Adam at a constant rate; here optimiser
and network are those of every recipe.

Reference: Balagansky, Gavrilov, *PALBERT: Teaching ALBERT to Ponder*, NeurIPS 2022.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from exitbench.errors import InputError
from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import sample_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference

REST = 0.05
"""What is left of a sample that counts as gone."""


@dataclass(frozen=True)
class PonderedExits(TrainingRecipe):
    """Every exit as much as samples leave there."""

    name: ClassVar[str] = "ponder"
    title: ClassVar[str] = "Pondering (PALBERT)"
    reference: ClassVar[Reference] = Reference(
        "PALBERT: Teaching ALBERT to Ponder", 2022, "https://arxiv.org/abs/2204.03276"
    )
    exit_rule: ClassVar[str] = "output[name=ponder]"
    published: ClassVar[str] = (
        "ALBERT, Adam at 1e-5, batches of 32, up to 25 epochs, shared pooler, no dropout in the encoder"
    )

    beta: float = parameter(0.5, at_least=0, help="weight of the prior")
    prior: float = parameter(0.1, above=0, help="rate of the geometric prior, below 1")
    blocks: int = parameter(3, at_least=0, help="of the hazard network; PonderNet has none")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.prior >= 1:
            raise InputError(f"recipe {self.name}: prior must be below 1, found {self.prior:g}")

    @property
    def addition(self) -> str:
        return f"hazard[blocks={self.blocks}]"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        leaving, staying = (functional.logsigmoid(sign * exits.outputs["hazard"]) for sign in (1, -1))
        still_there = staying.cumsum(dim=0) - staying
        depth = len(leaving)
        # [layers, samples]
        gone = -torch.expm1(still_there) > 1 - REST
        log_shares = (leaving + still_there).masked_fill(gone, math.log(REST / depth))
        numbers = torch.arange(depth, device=leaving.device)
        prior = self.prior * (1 - self.prior) ** numbers
        prior[-1] = (1 - self.prior) ** (depth - 1)
        divergence = (prior[:, None] * (prior.log()[:, None] - log_shares)).sum(dim=0).mean()
        weighted = log_shares.exp() * sample_losses(exits.logits, labels)
        return weighted.mean(dim=1).sum() + self.beta * divergence
