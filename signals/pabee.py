"""PABEE: exit when several layers in a row gave the same answer.

.. math:: s_1 = 0, \\quad s_m = s_{m-1} + 1 \\text{ if } y_m = y_{m-1}, \\text{ else } 0, \\qquad
   \\text{exit when } s_m \\ge t

with t a whole number in 1..M-2. Layer 1 has nothing to compare with and no score.

Reference: Zhou, Xu, Ge, McAuley, Xu, Wei, *BERT Loses Patience: Fast and Robust Inference with Early Exit*,
NeurIPS 2020.

Text and code: the same rule, so there is one form. The counter is 0 on layer 1, so the earliest exit is layer t + 1,
and the current layer's answer is given. Not of the score: what the code calls speed-up is ``1 - layers / M``, not the
ratio used here.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.signal import ExitSignal, Integers, Reference


@dataclass(frozen=True)
class PABEE(ExitSignal):
    """How many layers in a row have agreed with the one before."""

    name: ClassVar[str] = "pabee"
    title: ClassVar[str] = "PABEE"
    reference: ClassVar[Reference] = Reference(
        "BERT Loses Patience: Fast and Robust Inference with Early Exit", 2020, "https://arxiv.org/abs/2006.04152"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    thresholds: ClassVar[Integers] = Integers(low=1, below_depth=2)
    shift_invariant = True
    beyond_the_score: ClassVar[tuple[str, ...]] = ('Its "speed up" is 1 - layers / M.',)

    @property
    def first_exit_layer(self) -> int:
        return 2

    @property
    def first_scored_layer(self) -> int:
        return 2

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        if state is None:
            return layer.no_score(), (layer.prediction, torch.zeros_like(layer.prediction))
        previous, streak = state
        streak = torch.where(layer.prediction == previous, streak + 1, 0)
        return streak.double(), (layer.prediction, streak)
