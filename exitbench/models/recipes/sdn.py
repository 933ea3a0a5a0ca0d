"""The last exit fully, the others with weights that grow from epoch to epoch (Shallow-Deep Networks).

.. math:: L = \\mathrm{CE}_M + \\sum_{m<M} \\min\\bigl(c_m,\\ 0.01 + t\\, c_m / T\\bigr) \\mathrm{CE}_m, \\qquad
    c_m = m / M

with :math:`t` the epoch, from 1, of :math:`T`.

Reference: Kaya, Hong, Dumitras, *Shallow-Deep Networks: Understanding and Mitigating Network Overthinking*, ICML 2019.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference

START = 0.01
"""The weight that every internal exit has besides what the epochs bring."""


@dataclass(frozen=True)
class ShallowDeep(TrainingRecipe):
    """Internal exits count more with every epoch, up to their share of the cost."""

    name: ClassVar[str] = "sdn"
    title: ClassVar[str] = "Growing weights (SDN)"
    reference: ClassVar[Reference] = Reference(
        "Shallow-Deep Networks: Understanding and Mitigating Network Overthinking",
        2019,
        "https://arxiv.org/abs/1810.07052",
    )
    exit_rule: ClassVar[str] = "right-tool"
    published: ClassVar[str] = "image networks of other optimisers"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        costs = losses.new_tensor(range(1, len(losses))) / len(losses)
        weights = (START + (moment.epoch + 1) * costs / moment.epochs).minimum(costs)
        return losses[-1] + (weights * losses[:-1]).sum()
