"""Margin: exit when the best class is far ahead of the second.

.. math:: s_m = l_{(1)} - l_{(2)} \\quad \\text{or} \\quad p_{(1)} - p_{(2)}, \\qquad \\text{exit when } s_m \\ge \\tau

with (1) and (2) the two largest entries. ``probabilities=true`` is CALM's *softmax response*, the form that its paper
and code use; the difference of logits, the default here, never saturates.

Reference: Schuster, Fisch, Gupta, Dehghani, Bahri, Tran, Tay, Metzler, *Confident Adaptive Language Modeling*,
NeurIPS 2022.

Where the publication differs: it decides for every generated token and lets its threshold fall along the text. Here
there is one decision per sample and layer, and one threshold.

With two classes both forms rank as max-softmax and entropy do. Precision: the margin of logits is exact for float32
logits; that of probabilities steps by 1.1e-16 next to 1, so margins near 30 tie when they are closer than about 1e-3.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class Margin(ExitSignal):
    """The lead of the best class over the second."""

    name: ClassVar[str] = "margin"
    title: ClassVar[str] = "Margin"
    reference: ClassVar[Reference] = Reference(
        "Confident Adaptive Language Modeling", 2022, "https://arxiv.org/abs/2207.07061"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    probabilities: bool = parameter(False, help="of the softmax, as CALM has it, not of the logits")

    def score(self, layer: Layer) -> Tensor:
        lead = logit_margin(layer)
        if not self.probabilities:
            return lead
        # p1 - p2 = p1 (1 - exp(-lead)), without the cancellation of two numbers that are almost equal.
        return -torch.expm1(-lead) * layer.log_probabilities.amax(dim=1).exp()


def logit_margin(layer: Layer) -> Tensor:
    """How far the largest logit is ahead of the second, [samples] float64; 0 where they tie."""
    return layer.once(("logits", "margin"), lambda: _lead(layer.logits64))


def _lead(logits: Tensor) -> Tensor:
    best, second = logits.topk(2, dim=1).values.unbind(dim=1)
    return best - second
