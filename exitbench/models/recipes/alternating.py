"""One step for the last exit, one step for all (BERxiT).

.. math:: L_t = \\mathrm{CE}_M \\ (t \\text{ even}), \\qquad L_t = \\sum_m \\mathrm{CE}_m \\ (t \\text{ odd})

with :math:`t` the step within the epoch, from 0, as in the public code.

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
class AlternatingSteps(TrainingRecipe):
    """The last exit in even steps, all exits in odd ones."""

    name: ClassVar[str] = "alternating"
    title: ClassVar[str] = "Alternating (BERxiT)"
    reference: ClassVar[Reference] = Reference(
        "BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression",
        2021,
        "https://aclanthology.org/2021.eacl-main.8",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = (
        "AdamW at 2e-5 falling linearly, no warm-up, no weight decay, batches of 8, 3 epochs, a pooler per layer"
    )

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        return losses[-1] if moment.epoch_step % 2 == 0 else losses.sum()
