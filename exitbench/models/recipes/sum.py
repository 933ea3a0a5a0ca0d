"""The plain sum over all exits.

.. math:: L = \\sum_m \\mathrm{CE}_m

Reference: Liu, Sun, He, Wu, Wu, Zhang, Jiang, Cao, Huang, Qiu, *Towards Efficient NLP: A Standard Evaluation and A
Strong Baseline*, NAACL 2022 (ElasticBERT), which fine-tunes with it; there with gradient equilibrium
(``--gradient-equilibrium``), and from a network that was pre-trained with exits, which this is not.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class SumOfExits(TrainingRecipe):
    """All exits at once, each as important as the others."""

    name: ClassVar[str] = "sum"
    title: ClassVar[str] = "Sum over exits"
    reference: ClassVar[Reference] = Reference(
        "Towards Efficient NLP: A Standard Evaluation and A Strong Baseline",
        2022,
        "https://aclanthology.org/2022.naacl-main.240",
    )
    exit_rule: ClassVar[str] = "deebert"
    published: ClassVar[str] = "ElasticBERT's network, with gradient equilibrium"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        return (Stage("all exits", tuple(range(1, depth + 1))),)

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        return exit_losses(exits.logits, labels).sum()
