"""All exits learn the labels, and the internal ones also the last one's probabilities.

.. math:: L = \\sum_m \\mathrm{CE}_m
    + w T^2 \\sum_{m<M} H\\bigl(\\mathrm{softmax}(l_M / T), \\mathrm{softmax}(l_m / T)\\bigr)

with :math:`H` the cross entropy; nothing flows into :math:`l_M` through the second term. The defaults are those of
BERxiT's routine ``self_distil``; ``weight=9,temperature=3`` has the proportions of RomeBERT.

Reference: Phuong, Lampert, *Distillation-Based Training for Multi-Exit Architectures*, ICCV 2019; Xin, Tang, Yu, Lin,
*BERxiT*, EACL 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses, soft_cross_entropy
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class SelfDistillation(TrainingRecipe):
    """Labels for all, and the last exit as teacher of the others."""

    name: ClassVar[str] = "self-distillation"
    title: ClassVar[str] = "Self-distillation"
    reference: ClassVar[Reference] = Reference(
        "BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression",
        2021,
        "https://aclanthology.org/2021.eacl-main.8",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "as alternating"

    weight: float = parameter(1.0, at_least=0, help="of what the last exit teaches")
    temperature: float = parameter(1.0, above=0, help="of both softmaxes")

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        taught = soft_cross_entropy(exits.logits[-1:], exits.logits[:-1], self.temperature).mean(dim=1).sum()
        return exit_losses(exits.logits, labels).sum() + self.weight * self.temperature**2 * taught
