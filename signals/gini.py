"""Gini impurity, the score of DOCTOR: exit when two draws from the layer's answer would rarely disagree.

.. math:: g_m = 1 - \\sum_c p_{m,c}^2, \\qquad \\text{exit when } g_m < \\tau

DOCTOR's :math:`D_\\alpha` at ``alpha = 2`` is ``g / (1 - g)``, the same ranking at another scale; its
:math:`D_\\beta = (1 - p_{max}) / p_{max}` is max-softmax (``right-tool``) at another scale, so neither has a signal of
its own.

Reference: Granese, Romanelli, Gorla, Palamidessi, Piantanida, *DOCTOR: A Simple Method for Detecting Misclassification
Errors*, NeurIPS 2021.

Where published code differs: it tries a grid of thresholds on a float32 softmax, where confident answers tie, so the
curves that it prints for scores of one ranking differ from each other.

With two classes it ranks as max-softmax and entropy do. Precision: it is summed as ``sum p_c (1 - p_c)`` with
``1 - p`` of the best class taken from the other classes, so that confident answers keep full float64 precision.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class Gini(ExitSignal):
    """One minus the sum of squared probabilities."""

    name: ClassVar[str] = "gini"
    title: ClassVar[str] = "Gini (DOCTOR)"
    reference: ClassVar[Reference] = Reference(
        "DOCTOR: A Simple Method for Detecting Misclassification Errors", 2021, "https://arxiv.org/abs/2106.02395"
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    def score(self, layer: Layer) -> Tensor:
        probabilities = layer.probabilities
        return (probabilities * layer.log_complements.exp()).sum(dim=1)
