"""A hazard network for all exits, and one head for all of them (PALBERT).

.. math:: \\lambda_m = \\sigma\\bigl(f([x_m ; x_{m-1}])\\bigr), \\qquad F_m = 1 - \\prod_{j \\le m} (1 - \\lambda_j)

with :math:`x_0 = 0` and :math:`f` some blocks of a linear map and tanh, and a linear map to one number. The outputs are
the log-odds of :math:`\\lambda_m` and the probability :math:`F_m` of having left.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from exitbench.models.network.additions.contract import (
    AddedModule,
    ExitAddition,
    ExitReading,
    NetworkSizes,
    linear_operations,
)
from exitbench.signals.contract.layer import State
from exitbench.signals.contract.parameters import parameter


class HazardModule(AddedModule):
    """Blocks on this and the feature before; it remembers that feature, and how far the sum of hazards has come."""

    outputs: ClassVar[Mapping[str, str]] = {
        "hazard": "log-odds of leaving here for who has come this far",
        "ponder": "P(having left by this exit)",
    }
    one_head: ClassVar[bool] = True

    def __init__(self, sizes: NetworkSizes, blocks: int) -> None:
        super().__init__()
        inside = 2 * sizes.width
        self.depth = sizes.depth
        self.blocks = nn.ModuleList(nn.Linear(inside, inside) for _ in range(blocks))
        self.unit = nn.Linear(inside, 1)

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        before, survived = (torch.zeros_like(features), features.new_zeros(len(features))) if memory is None else memory
        values = torch.cat([features, before], dim=1)
        for block in self.blocks:
            values = torch.tanh(block(values))
        log_odds = self.unit(values).squeeze(1).float()
        # The logarithm of the probability of still being there: -log(1 + e^z) adds up without rounding.
        survived = survived - functional.softplus(log_odds)
        outputs = {"hazard": log_odds, "ponder": -torch.expm1(survived)}
        return ExitReading(head(seen), outputs, (features, survived))

    def operations(self, length: int) -> int:
        inside = self.unit.in_features
        return self.depth * (len(self.blocks) * linear_operations(inside, inside) + linear_operations(inside, 1))


@dataclass(frozen=True)
class HazardExits(ExitAddition):
    """A hazard for every exit and one head for all."""

    name: ClassVar[str] = "hazard"
    title: ClassVar[str] = "Hazard network"

    blocks: int = parameter(3, at_least=0, help="linear maps with tanh before the last one")

    def build(self, sizes: NetworkSizes) -> HazardModule:
        return HazardModule(sizes, self.blocks)
