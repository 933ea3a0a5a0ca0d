"""What a network says at all its exits for one batch, and how gradients flow between its layers in training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor

from exitbench.signals.contract.layer import State


class ExitOutputs(NamedTuple):
    """Every layer's features [layers, samples, width], without dropout, and logits [layers, samples, classes].

    ``outputs`` are what an addition says besides, by name, [layers, samples] each; in training also what its recipe's
    loss reads.
    """

    features: Tensor
    logits: Tensor
    outputs: dict[str, Tensor]


@dataclass(frozen=True)
class LayerRun:
    """One layer with its exit: hidden states for the layers above, and what the exit reads and says.

    Features [samples, width], logits [samples, classes], outputs by name [samples]; ``memory`` is for the next layer.
    """

    hidden: Tensor
    features: Tensor
    logits: Tensor
    outputs: Mapping[str, Tensor]
    memory: State


GradientScales = tuple[tuple[float, float], ...]
"""For each layer what the gradient of its hidden states is multiplied by on its way from the layer's own exit, and from
the layers above."""


class _ScaledGradient(torch.autograd.Function):
    """The identity whose gradient is multiplied by a number."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return values.view_as(values)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def scaled_gradient(values: Tensor, factor: float) -> Tensor:
    """``values`` themselves, whose gradient is multiplied by ``factor`` on its way back.

    A factor of 0 stops it, and unlike a detached tensor leaves a gradient of zero behind: every weight has a gradient
    in every step, which several processes need to add theirs up.
    """
    scaled: Tensor = _ScaledGradient.apply(values, factor)  # type: ignore[no-untyped-call]
    return scaled
