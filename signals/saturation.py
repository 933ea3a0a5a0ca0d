"""Saturation, CALM's hidden-state signal: exit when the feature has stopped turning.

.. math:: s_m = \\cos(x_{m-1}, x_m), \\qquad \\text{exit when } s_m \\ge \\tau

with x the head's input. Layer 1 has nothing to compare with and no score; where a feature is 0 the score is 0.

Reference: Schuster, Fisch, Gupta, Dehghani, Bahri, Tran, Tay, Metzler, *Confident Adaptive Language Modeling*,
NeurIPS 2022.

Where the publication differs: it compares raw hidden states of a decoder, token by token, and gives the first exit a
confidence of 0; here features are compared as the heads read them. That has a meaning only where all layers are read
through the same pooler, or through none: with a pooler per layer each feature has a basis of its own, and an angle
between two bases says nothing. Such a network is refused, and so is one that does not say what poolers it has.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class Saturation(ExitSignal):
    """The cosine between the features of this layer and the one before."""

    name: ClassVar[str] = "saturation"
    title: ClassVar[str] = "Saturation (CALM)"
    reference: ClassVar[Reference] = Reference(
        "Confident Adaptive Language Modeling", 2022, "https://arxiv.org/abs/2207.07061"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"features"})
    poolers: ClassVar[frozenset[str]] = frozenset({"none", "shared"})
    shift_invariant = True
    needs_one_width = True
    exceptions: ClassVar[dict[str, str]] = {
        "direction_agrees_with_accuracy": "each layer of the synthetic network has a basis of its own, which it refuses"
    }

    @property
    def first_exit_layer(self) -> int:
        return 2

    @property
    def first_scored_layer(self) -> int:
        return 2

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        if layer.features is None:
            raise InputError(f"layer {layer.index}: signal {self.text} needs features, and this input has none")
        feature = layer.features.double()
        direction = feature / feature.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
        if state is None:
            return layer.no_score(), direction
        if state.shape[1] != direction.shape[1]:
            raise InputError(
                f"signal {self.text} compares the features of neighbouring layers, found widths {state.shape[1]} "
                f"and {direction.shape[1]} at layers {layer.index - 1} and {layer.index}"
            )
        return (state * direction).sum(dim=1), direction
