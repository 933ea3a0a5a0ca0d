"""One linear unit for all exits that says how sure its answer is right (BERxiT's learning to exit).

.. math:: u_m = \\sigma(w \\cdot x_m + c)

It reads the feature as the head does, dropout included.
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


class LearnedExitModule(AddedModule):
    """A linear unit on the head's own input."""

    outputs: ClassVar[Mapping[str, str]] = {"lte": "P(this exit is right), learned with the network"}

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        self.depth, self.unit = sizes.depth, nn.Linear(sizes.width, 1)

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        return ExitReading(head(seen), {"lte": torch.sigmoid(self.unit(seen)).squeeze(1)})

    def operations(self, length: int) -> int:
        return self.depth * linear_operations(self.unit.in_features, 1)


@dataclass(frozen=True)
class LearnedExit(ExitAddition):
    """A unit that learns whether an exit is right."""

    name: ClassVar[str] = "lte"
    title: ClassVar[str] = "Learning to exit"

    def build(self, sizes: NetworkSizes) -> LearnedExitModule:
        return LearnedExitModule(sizes)
