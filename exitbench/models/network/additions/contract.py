"""The contract of what a recipe adds to a network: modules at its exits, with weights, outputs and a memory.

An addition is written into the network's configuration as a text such as ``hazard[blocks=3]``, so that a folder can be
loaded without the recipe that trained it. Its module sees the layers in order. What it remembers from layer to layer
has the samples first, like a signal's state, so that samples may leave.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from torch import Tensor, nn

from exitbench.models.network.families import Context, Family
from exitbench.signals.contract.layer import State
from exitbench.signals.contract.signal import Parametrised


class NetworkSizes(NamedTuple):
    """Layers, width of the features, classes, and the epsilon of the network's layer norms."""

    depth: int
    width: int
    classes: int
    norm_epsilon: float


class ExitReading(NamedTuple):
    """What an exit says: logits [samples, classes], outputs by name, [samples] each, and what the next one may know."""

    logits: Tensor
    outputs: Mapping[str, Tensor]
    memory: State = None


class AddedModule(nn.Module):
    """Nothing: what a network of linear heads adds to itself. Subclasses say what differs.

    ``outputs`` describes each extra output by its name; ``not_linear`` says why logits are not ``W x + b`` of the
    features, and is empty where they are; ``one_head`` says whether all exits share a head, ``fixed_heads`` whether
    heads never learn.
    """

    outputs: ClassVar[Mapping[str, str]] = {}
    not_linear: ClassVar[str] = ""
    one_head: ClassVar[bool] = False
    fixed_heads: ClassVar[bool] = False

    @property
    def linear(self) -> bool:
        """Whether logits are ``W x + b`` of the features, with a head for every exit or one for all."""
        return not self.not_linear

    def renew(self, model: Any) -> None:
        """Take over from the network's own weights what begins as a copy of them; called for a new network."""

    def layer(self, family: Family, m: int, hidden: Tensor, context: Context) -> tuple[Tensor, Tensor]:
        """Hidden states after layer ``m`` for the layers above, and for the layer's own exit."""
        hidden = family.layer(m, hidden, context)
        return hidden, hidden

    def features(self, m: int, pooled: Tensor) -> Tensor:
        """What exit ``m`` reads, [samples, width], from the pooled vector."""
        return pooled

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        """What exit ``m`` says; ``seen`` are the features with dropout, ``head`` is its linear head."""
        return ExitReading(head(seen), {})

    def for_the_loss(self, features: Tensor) -> dict[str, Tensor]:
        """More that a recipe's loss reads, from all features [layers, samples, width]; asked for in training only."""
        return {}

    def operations(self, length: int) -> int:
        """The operations that it adds to one sample of ``length`` tokens through all layers."""
        return 0


@dataclass(frozen=True)
class ExitAddition(Parametrised, ABC):
    """An addition by name and parameters; :meth:`build` makes its module with weights from torch's generator."""

    kind: ClassVar[str] = "addition"

    @abstractmethod
    def build(self, sizes: NetworkSizes) -> AddedModule:
        """The module for a network of these sizes."""


def linear_operations(inside: int, outside: int) -> int:
    """A linear map of one vector, a multiplication and an addition counted as two."""
    return 2 * inside * outside
