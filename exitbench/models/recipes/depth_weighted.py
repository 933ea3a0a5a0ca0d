"""The mean over all exits, weighted by depth (PABEE).

.. math:: L = \\sum_m m \\, \\mathrm{CE}_m \\Big/ \\sum_m m

Reference: Zhou, Xu, Ge, McAuley, Xu, Wei, *BERT Loses Patience: Fast and Robust Inference with Early Exit*,
NeurIPS 2020.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import depth_weights, exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DepthWeighted(TrainingRecipe):
    """All exits at once, the deeper the heavier."""

    name: ClassVar[str] = "depth-weighted"
    title: ClassVar[str] = "Depth-weighted mean (PABEE)"
    reference: ClassVar[Reference] = Reference(
        "BERT Loses Patience: Fast and Robust Inference with Early Exit",
        2020,
        "https://arxiv.org/abs/2006.04152",
    )
    exit_rule: ClassVar[str] = "pabee"
    published: ClassVar[str] = "shared pooler"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        return (depth_weights(losses) * losses).sum()
