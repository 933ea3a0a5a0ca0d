"""The mean over all exits.

.. math:: L = \\frac1M \\sum_m \\mathrm{CE}_m

The direction of the sum; its size differs where gradients are clipped, which is by their norm.

Reference: He et al., *Improving Prediction Certainty Estimation for Reliable Early Exiting via Null Space Projection*,
IJCAI 2025: its public code averages although the paper writes a sum.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class MeanOfExits(TrainingRecipe):
    """All exits at once, the mean of their losses."""

    name: ClassVar[str] = "mean"
    title: ClassVar[str] = "Mean over exits"
    reference: ClassVar[Reference] = Reference(
        "Improving Prediction Certainty Estimation for Reliable Early Exiting via Null Space Projection",
        2025,
        "https://doi.org/10.24963/ijcai.2025/898",
    )
    exit_rule: ClassVar[str] = "nsp"
    published: ClassVar[str] = "shared pooler"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        return exit_losses(exits.logits, labels).mean()
