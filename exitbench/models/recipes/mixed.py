"""The backbone with its last exit first, then everything together.

.. math:: L_1 = \\mathrm{CE}_M, \\qquad L_2 = \\sum_m \\mathrm{CE}_m

Reference: Kubaty et al., *How to Train Your Multi-Exit Model? Analyzing the Impact of Training Strategies*, ICML 2025.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class MixedRegime(TrainingRecipe):
    """The last exit first, then all exits with the backbone."""

    name: ClassVar[str] = "mixed"
    title: ClassVar[str] = "Mixed regime"
    reference: ClassVar[Reference] = Reference(
        "How to Train Your Multi-Exit Model? Analyzing the Impact of Training Strategies",
        2025,
        "https://arxiv.org/abs/2407.14320",
    )
    exit_rule: ClassVar[str] = "right-tool"
    published: ClassVar[str] = "each stage until validation data stop it; rates not looked up"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("final exit", (depth,)), Stage("all exits", tuple(range(1, depth + 1))))

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        return losses[-1] if moment.stage == 0 else losses.sum()
