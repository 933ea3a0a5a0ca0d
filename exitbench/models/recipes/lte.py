"""One step for the last exit, one for the others, and a unit that learns which exits are right (BERxiT).

.. math:: L_t = \\mathrm{CE}_M + L_\\mathrm{lte} \\ (t \\text{ even}), \\qquad
    L_t = \\sum_{m<M} \\mathrm{CE}_m + L_\\mathrm{lte} \\ (t \\text{ odd}), \\qquad
    L_\\mathrm{lte} = \\operatorname{mean}_{i,m} \\bigl(u_{im} - [y_{im} = y_i]\\bigr)^2

with :math:`t` the step within the epoch, from 0. The unit (addition ``lte``) is shared by all exits and reads what
the head reads, so that it shapes the network too. Odd steps have no :math:`\\mathrm{CE}_M`, unlike those of
``alternating``; both are as in the public code. There the unit says how unsure it is; here, as in the paper, how
sure.

Reference: Xin, Tang, Yu, Lin, *BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression*,
EACL 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class LearningToExit(TrainingRecipe):
    """Alternating steps, and a unit that learns which exits are right."""

    name: ClassVar[str] = "lte"
    title: ClassVar[str] = "Learning to exit (BERxiT)"
    reference: ClassVar[Reference] = Reference(
        "BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression",
        2021,
        "https://aclanthology.org/2021.eacl-main.8",
    )
    exit_rule: ClassVar[str] = "output"
    published: ClassVar[str] = "as alternating"

    @property
    def addition(self) -> str:
        return "lte"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        right = (exits.logits.argmax(dim=2) == labels).float()
        unit = (exits.outputs["lte"] - right).square().mean()
        return (losses[-1] if moment.epoch_step % 2 == 0 else losses[:-1].sum()) + unit
