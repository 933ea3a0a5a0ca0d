"""Exits that read all states so far and imagine the later ones (GPFEE), instead of linear heads.

The formulas are those of ``exitbench derive past-future``, whose maps these are. In training a state teaches the
network only at its own exit: at later ones it is a constant, as in the public code.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from exitbench.derive.methods.past_future import PastFuture, PastFutureAnswers
from exitbench.models.network.additions.contract import (
    AddedModule,
    ExitAddition,
    ExitReading,
    NetworkSizes,
    linear_operations,
)
from exitbench.signals.contract.layer import State


class PastFutureModule(AddedModule):
    """Maps of every state to an answer, a gate and the later states; it remembers the sums of the first two."""

    not_linear: ClassVar[str] = PastFutureAnswers.not_linear

    def __init__(self, sizes: NetworkSizes) -> None:
        super().__init__()
        self.sizes = sizes
        seed = int(torch.randint(2**31, ()))
        self.maps = PastFuture(sizes.depth, sizes.width, sizes.classes, seed)

    def reading(
        self, m: int, features: Tensor, seen: Tensor, head: Callable[[Tensor], Tensor], memory: State
    ) -> ExitReading:
        answer, hint = self.maps.parts(seen, m)
        past, hints = (torch.zeros_like(answer), torch.zeros_like(hint)) if memory is None else memory
        logits = self.maps.mixed(m, past + answer, hints + hint, self.maps.imagined(features, m))
        if self.training:
            answer, hint = self.maps.parts(seen.detach(), m)
        return ExitReading(logits.float(), {}, (past + answer, hints + hint))

    def for_the_loss(self, features: Tensor) -> dict[str, Tensor]:
        """``imitation`` [layers - 1, samples]: the mean over later layers of ``1 - cos`` between imagined and true."""
        distances = []
        for m in range(1, len(features)):
            later = features[m:].detach()
            likeness = functional.cosine_similarity(self.maps.imagined(features[m - 1], m), later, dim=2)
            distances.append((1 - likeness).mean(dim=0))
        return {"imitation": torch.stack(distances)}

    def operations(self, length: int) -> int:
        depth, width, classes, _ = self.sizes
        own = depth * (2 * linear_operations(width, classes) + linear_operations(classes, classes))
        later = depth * (depth - 1) // 2
        return own + later * (linear_operations(width, width) + linear_operations(width, classes))


@dataclass(frozen=True)
class PastFutureExits(ExitAddition):
    """Exits on past and imagined states."""

    name: ClassVar[str] = "past-future"
    title: ClassVar[str] = "Past and future states"

    def build(self, sizes: NetworkSizes) -> PastFutureModule:
        return PastFutureModule(sizes)
