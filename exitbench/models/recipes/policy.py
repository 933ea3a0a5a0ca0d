"""Exits first, then policies that know how hard a row is, then both together (ConsistentEE).

.. math:: L_1 = \\sum_m m\\,\\mathrm{CE}_m \\Big/ \\sum_m m, \\qquad
    L_{2,3} = \\operatorname{mean}_i \\sum_m \\pi_{im}
    \\Bigl(\\mathrm{CE}_{im} + \\alpha\\, m\\,\\bigl(1 - \\mathrm{ML}_i / M\\bigr)\\Bigr)

with :math:`\\pi_m = a_m \\prod_{j<m} (1 - a_j)`, the last exit taking the rest. :math:`\\mathrm{ML}_i` is the
memorised layer of a row after the first stage: the first from which on all exits are right, M where the last one is
wrong. The second stage trains the policies (addition ``policy``) alone, the third everything. The public code
estimates the gradient of the same reward by eight runs that differ only by dropout (REINFORCE); here the expectation
is taken exactly. Its snapshot has the acceleration term switched off, with several values of :math:`\\alpha` in
comments; those of the paper are not public.

Reference: Zeng, Hong, Dai, Zhuang, Chen, *ConsistentEE: A Consistent and Hardness-Guided Early Exiting Method for
Accelerating Language Models Inference*, AAAI 2024.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import depth_weights, exit_losses, sample_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class PolicyAndExits(TrainingRecipe):
    """Exits, policies, then both together."""

    name: ClassVar[str] = "policy"
    title: ClassVar[str] = "Policy and exits (ConsistentEE)"
    reference: ClassVar[Reference] = Reference(
        "ConsistentEE: A Consistent and Hardness-Guided Early Exiting Method for Accelerating Language Models",
        2024,
        "https://arxiv.org/abs/2312.11882",
    )
    exit_rule: ClassVar[str] = "output[name=policy]"
    published: ClassVar[str] = "shared pooler; 5 epochs at 1e-5, 2 at 3e-4, 2 at 3e-5, batches of 16 and 32"

    alpha: float = parameter(0.02785, at_least=0, help="price of a layer for a row that is learned early")
    hidden: int = parameter(32, at_least=1, help="width of the policies' hidden layer")

    @property
    def addition(self) -> str:
        return f"policy[hidden={self.hidden}]"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        every = tuple(range(1, depth + 1))
        return (
            Stage("all exits", every, added=False, asks=True),
            Stage("policies", (), backbone=False),
            Stage("policies and exits", every),
        )

    def start(self, depth: int, rows: int) -> RecipeState:
        return {"memorised": torch.full((rows,), depth)}

    def after_stage(self, stage: int, right: Tensor, state: RecipeState) -> None:
        depth = len(right)
        right_to_the_end = right.long().flip(0).cumprod(dim=0).sum(dim=0)
        state["memorised"] = (depth + 1 - right_to_the_end).clamp(max=depth)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        if moment.stage == 0:
            losses = exit_losses(exits.logits, labels)
            return (depth_weights(losses) * losses).sum()
        each = sample_losses(exits.logits, labels)
        leaving = exits.outputs["policy"]
        staying = torch.cat([torch.ones_like(leaving[:1]), (1 - leaving[:-1]).cumprod(dim=0)])
        depth = len(each)
        numbers = torch.arange(1, depth + 1, device=each.device)[:, None]
        slowness = numbers * (1 - state["memorised"][moment.rows] / depth)
        return (leaving * staying * (each + self.alpha * slowness)).sum(dim=0).mean()
