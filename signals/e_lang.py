"""E-LANG: exit when the energy of the layer's logits is low.

.. math:: E_m = -T \\, \\mathrm{logsumexp}(l_m / T), \\qquad \\text{exit when } E_m < \\tau

``center=true`` first subtracts from each sample's logits their mean over the classes, a direction that cross entropy
never trains and energy, unlike a softmax, sees.

Reference: Akbari, Banitalebi-Dehkordi, Zhang, *E-LANG: Energy-Based Joint Inferencing of Super and Swift Language
Models*, ACL 2022.

Text and code: the same score, so there is one form; it needs the raw logits, since adding a constant to them changes
it. Not of the score: the publication routes whole inputs between two models. Here, as in the NSP paper, the same number
is read at every layer.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


def energy(layer: Layer, *, temperature: float = 1.0, center: bool = False) -> Tensor:
    """The energy of each sample's logits, [samples] float64."""
    if temperature == 1.0 and not center:
        return layer.energy
    logits = layer.logits64
    if center:
        logits = logits - logits.mean(dim=1, keepdim=True)
    return -temperature * torch.logsumexp(logits / temperature, dim=1)


@dataclass(frozen=True)
class ELang(ExitSignal):
    """Energy of the logits."""

    name: ClassVar[str] = "e-lang"
    title: ClassVar[str] = "E-LANG"
    reference: ClassVar[Reference] = Reference(
        "E-LANG: Energy-Based Joint Inferencing of Super and Swift Language Models",
        2022,
        "https://arxiv.org/abs/2203.00748",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    beyond_the_score: ClassVar[tuple[str, ...]] = ("It routes whole inputs between two models.",)

    temperature: float = parameter(1.0, above=0, help="T in the energy")
    center: bool = parameter(False, help="subtract the class mean first")

    @property
    def shift_invariant(self) -> bool:
        return self.center

    def score(self, layer: Layer) -> Tensor:
        return energy(layer, temperature=self.temperature, center=self.center)
