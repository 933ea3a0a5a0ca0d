"""Exits that read all states so far and imagine the later ones, trained with the network (GPFEE).

.. math:: L = \\tfrac12 \\Bigl(\\sum_m m\\,\\mathrm{CE}_m \\Big/ \\sum_m m + \\operatorname{mean}_{m<M}
    \\operatorname{mean}_{j>m} \\bigl(1 - \\cos(\\hat s_{m \\to j}, s_j)\\bigr)\\Bigr)

with the addition ``past-future``; the states :math:`s_j` that are imitated are constants. The first ``freeze`` layers
are cut off from their gradient with a probability that falls from 1 to 0 over the training, drawn for each layer and
step. A state is dropped out once, where the public code draws anew at every later exit, because a running exit
remembers sums and not states.

Reference: Liao, Zhang, Ren, Su, Sun, He, *A Global Past-Future Early Exit Method for Accelerating Inference of
Pre-trained Language Models*, NAACL 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs, GradientScales
from exitbench.models.training.losses import depth_weights, exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class PastFutureTraining(TrainingRecipe):
    """Exits on past and imagined states, trained with the network."""

    name: ClassVar[str] = "past-future"
    title: ClassVar[str] = "Past and future states (GPFEE)"
    reference: ClassVar[Reference] = Reference(
        "A Global Past-Future Early Exit Method for Accelerating Inference of Pre-trained Language Models",
        2021,
        "https://aclanthology.org/2021.naacl-main.162",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "a pooler per layer; SST-2: freeze 2, batches of 16, 1e-5, 3 epochs"

    freeze: int = parameter(2, grid=(1, 2, 3), at_least=0, help="first layers that learn later; 1 to 3 by task")

    @property
    def addition(self) -> str:
        return "past-future"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        return ((depth_weights(losses) * losses).sum() + exits.outputs["imitation"].mean()) / 2

    def gradient_scales(self, depth: int, moment: Moment) -> GradientScales:
        cut = (torch.rand(depth) > moment.step / moment.steps).tolist()
        return tuple((0.0, 0.0) if m < self.freeze and cut[m] else (1.0, 1.0) for m in range(depth))
