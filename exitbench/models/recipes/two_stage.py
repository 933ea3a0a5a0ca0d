"""The last exit with the backbone first, then the other exits on the frozen backbone (DeeBERT).

.. math:: L_1 = \\mathrm{CE}_M, \\qquad L_2 = \\sum_{m<M} \\mathrm{CE}_m

Reference: Xin, Tang, Lee, Yu, Lin, *DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference*, ACL 2020.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class TwoStage(TrainingRecipe):
    """The last exit first, then the others on a frozen backbone."""

    name: ClassVar[str] = "two-stage"
    title: ClassVar[str] = "Two stages (DeeBERT)"
    reference: ClassVar[Reference] = Reference(
        "DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference",
        2020,
        "https://aclanthology.org/2020.acl-main.204",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "a pooler per layer"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("final exit", (depth,)), Stage("internal exits", tuple(range(1, depth)), backbone=False))

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        return losses[-1] if moment.stage == 0 else losses[:-1].sum()
