"""The last exit with the backbone first, then the others learn its probabilities on the frozen backbone (FastBERT).

.. math:: L_1 = \\mathrm{CE}_M, \\qquad L_2 = \\sum_{m<M} \\mathrm{KL}(p_M \\,\\|\\, p_m)

The second stage reads no labels. The teacher runs in training mode, dropout included, as in the public code.

Reference: Liu, Zhou, Zhao, Wang, Ju, Deng, *FastBERT: a Self-distilling BERT with Adaptive Inference Time*, ACL 2020.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import divergence_from, exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DistilledExits(TrainingRecipe):
    """The last exit first, then the others towards its probabilities."""

    name: ClassVar[str] = "distilled"
    title: ClassVar[str] = "Distilled exits (FastBERT)"
    reference: ClassVar[Reference] = Reference(
        "FastBERT: a Self-distilling BERT with Adaptive Inference Time",
        2020,
        "https://aclanthology.org/2020.acl-main.537",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "AdamW at 2e-5 for 3 epochs, then at 2e-4 for 5 to 10; exits with attention of their own"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("final exit", (depth,)), Stage("internal exits", tuple(range(1, depth)), backbone=False))

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        if moment.stage == 0:
            return exit_losses(exits.logits, labels)[-1]
        return divergence_from(exits.logits[-1:], exits.logits[:-1]).mean(dim=1).sum()
