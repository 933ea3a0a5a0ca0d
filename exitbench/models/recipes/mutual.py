"""Every exit learns from every other (what is public of LeeBERT and GAML-BERT).

.. math:: L = \\sum_m \\mathrm{CE}_m + w T^2 \\sum_m \\sum_{t \\ne m} \\mathrm{KL}\\bigl(\\mathrm{softmax}(l_t / T)
    \\,\\|\\, \\mathrm{softmax}(l_m / T)\\bigr)

Nothing flows into the teachers :math:`t`; with ``teachers=later`` only deeper exits teach. LeeBERT learns a weight for
every pair by a procedure that is not public, and GAML-BERT aligns gradients by a formula that is not: this has one
weight and no alignment, so it has a name of its own.

Reference: Zhu, *LeeBERT: Learned Early Exit for BERT with Cross-Level Optimization*, ACL 2021.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import divergence_from, exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class MutualDistillation(TrainingRecipe):
    """Every exit teaches every other."""

    name: ClassVar[str] = "mutual"
    title: ClassVar[str] = "Mutual distillation"
    reference: ClassVar[Reference] = Reference(
        "LeeBERT: Learned Early Exit for BERT with Cross-Level Optimization",
        2021,
        "https://aclanthology.org/2021.acl-long.231",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "not public"

    weight: float = parameter(1.0, at_least=0, help="of what the exits teach each other")
    temperature: float = parameter(1.0, above=0, help="of both softmaxes")
    teachers: str = parameter("all", choices=("all", "later"), help="who teaches: all others, or deeper ones only")

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        logits = exits.logits
        # [teachers, students, samples]
        pairs = divergence_from(logits[:, None], logits[None], self.temperature).mean(dim=2)
        # A teacher of itself teaches nothing; what is left above the diagonal comes from earlier exits.
        taught = pairs.sum() if self.teachers == "all" else pairs.tril(diagonal=-1).sum()
        return exit_losses(logits, labels).sum() + self.weight * self.temperature**2 * taught
