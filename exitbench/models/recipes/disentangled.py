"""The network with its last exit first, then adapters that feed the other exits (DisentangledEE).

.. math:: L_1 = \\mathrm{CE}_M, \\qquad L_2 = \\sum_{m<M} (M - m)\\,\\mathrm{CE}_m \\Big/ \\sum_{m<M} (M - m)

with the addition ``adapters``: an adapter inside each layer, batch norms and fixed simplex heads. The second stage
trains adapters, their norms and the batch norms alone, on the frozen network (and internal poolers, where each layer
has its own); the first exit weighs most. The public code draws the fixed heads anew whenever the network is built and
does not save them; here they are saved as the heads. It chooses a checkpoint on the dev set, and copies the bias of
one norm only; here all norms are copied and the last step counts.

Reference: Ji, Wang, Li, Chen, Wang, *Early Exit with Disentangled Representation and Equiangular Tight Frame*,
Findings of ACL 2023.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.training.losses import exit_losses
from exitbench.models.training.recipe import Moment, RecipeState, Stage, TrainingRecipe
from exitbench.signals.contract.parameters import parameter, value_text
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DisentangledExits(TrainingRecipe):
    """The last exit first, then adapters for the others."""

    name: ClassVar[str] = "disentangled"
    title: ClassVar[str] = "Disentangled exits (DisentangledEE)"
    reference: ClassVar[Reference] = Reference(
        "Early Exit with Disentangled Representation and Equiangular Tight Frame",
        2023,
        "https://aclanthology.org/2023.findings-acl.889",
    )
    exit_rule: ClassVar[str] = "pabee"
    published: ClassVar[str] = "shared pooler; SST-2: 5 epochs at 2e-5 with batches of 32, then 1 at 8e-3"

    bottleneck: int = parameter(128, at_least=1, help="width inside an adapter")
    scale: float = parameter(8.0, above=0, help="of what an adapter adds")

    @property
    def addition(self) -> str:
        return f"adapters[bottleneck={self.bottleneck},scale={value_text(self.scale)}]"

    def stages(self, depth: int) -> tuple[Stage, ...]:
        inner = tuple(range(1, depth))
        return (Stage("final exit", (depth,)), Stage("adapters", inner, backbone=False, renew=True))

    def loss(self, exits: ExitOutputs, labels: Tensor, moment: Moment, state: RecipeState) -> Tensor:
        losses = exit_losses(exits.logits, labels)
        if moment.stage == 0:
            return losses[-1]
        weights = losses.new_tensor(range(len(losses) - 1, 0, -1))
        return (weights * losses[:-1]).sum() / weights.sum()
