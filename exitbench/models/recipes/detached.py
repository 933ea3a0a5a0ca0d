"""The sum over all exits, and no gradient from one layer's exit into the layers below (SWEET).

.. math:: L = \\sum_m \\mathrm{CE}_m \\quad \\text{with } h_m \\text{ constant for the layers above } m

Each layer learns for its own exit alone, so exits do not pull at one another. The public code has exits after a few
layers only, so that a block of layers learns for each; here every layer has one. With a shared pooler the exits still
share it.

Reference: Rotem, Hassid, Mamou, Schwartz, *Finding the SWEET Spot: Analysis and Improvement of Adaptive Inference in
Low Resource Settings*, Findings of ACL 2023.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs, GradientScales
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DetachedExits(TrainingRecipe):
    """All exits at once, each layer for its own exit alone."""

    name: ClassVar[str] = "detached"
    title: ClassVar[str] = "Detached layers (SWEET)"
    reference: ClassVar[Reference] = Reference(
        "Finding the SWEET Spot: Analysis and Improvement of Adaptive Inference in Low Resource Settings",
        2023,
        "https://arxiv.org/abs/2306.02307",
    )
    exit_rule: ClassVar[str] = "right-tool"
    published: ClassVar[str] = "no pooler, exits after layers 1, 4, 6 and 12"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        return exit_losses(exits.logits, labels).sum()

    def gradient_scales(self, depth: int, moment: Moment) -> GradientScales:
        return ((1.0, 0.0),) * depth
