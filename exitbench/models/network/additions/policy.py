"""A small network for each internal exit that decides whether to leave (ConsistentEE's policy).

.. math:: a_m = \\sigma\\bigl(W'_m \\, \\mathrm{GELU}(W_m x_m + b_m) + b'_m\\bigr)

It reads the feature without dropout. The last layer always answers, so its output is 1.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor, nn

from exitbench.models.network.additions.contract import (
    AddedModule,
    ExitAddition,
    ExitReading,
    NetworkSizes,
    linear_operations,
)
from exitbench.signals.contract.layer import State
from exitbench.signals.contract.parameters import parameter


class PolicyModule(AddedModule):
    """A hidden layer and one number for each internal exit."""

    outputs: ClassVar[Mapping[str, str]] = {"policy": "P(leaving here), learned with the network"}

    def __init__(self, sizes: NetworkSizes, hidden: int) -> None:
        super().__init__()
        self.sizes, self.hidden = sizes, hidden
        self.policies = nn.ModuleList(
            nn.Sequential(nn.Linear(sizes.width, hidden), nn.GELU(), nn.Linear(hidden, 1))
            for _ in range(sizes.depth - 1)
        )

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        if m == self.sizes.depth:
            return ExitReading(head(seen), {"policy": features.new_ones(len(features))})
        return ExitReading(head(seen), {"policy": torch.sigmoid(self.policies[m - 1](features)).squeeze(1).float()})

    def operations(self, length: int) -> int:
        each = linear_operations(self.sizes.width, self.hidden) + linear_operations(self.hidden, 1)
        return (self.sizes.depth - 1) * each


@dataclass(frozen=True)
class PolicyExits(ExitAddition):
    """A policy network for each internal exit."""

    name: ClassVar[str] = "policy"
    title: ClassVar[str] = "Policy networks"

    hidden: int = parameter(32, at_least=1, help="width of the hidden layer")

    def build(self, sizes: NetworkSizes) -> PolicyModule:
        return PolicyModule(sizes, self.hidden)
