"""DeeBERT: exit when the entropy of the layer's answer is low.

.. math:: H(p_m) = -\\sum_c p_{m,c} \\ln p_{m,c}, \\qquad \\text{exit when } H < \\tau

in nats. ``normalize=true`` divides by ``ln C`` (FastBERT's form), so that thresholds compare across tasks.

Reference: Xin, Tang, Lee, Yu, Lin, *DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference*, ACL 2020.

Text and code: DeeBERT's agree on the score, ``normalize=false``, and on the strict ``<``. FastBERT's form is
``normalize=true``; its batch script exits on ``<=``, its package on ``<``. That changes which threshold names an
operating point but no operating point: ``<= tau`` is ``<`` the next number above tau, so there is one form here, ``<``.
Not of the score: DeeBERT's code applies the rule at the last layer too, with an exit head that its training never
touches (here the last layer is no decision), and the "expected saving" it prints is the share of layers *used*.

Precision: with two classes entropy is a function of the margin ``|l_1 - l_2|`` alone. It keeps its full float64
precision for confident answers. For undecided ones ``H`` is flat, ``ln 2 - margin^2 / 8``: two margins whose
squares differ by less than about 1e-14 tie here, though not under ``right-tool``.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class DeeBERT(ExitSignal):
    """Entropy of the softmax."""

    name: ClassVar[str] = "deebert"
    title: ClassVar[str] = "DeeBERT"
    reference: ClassVar[Reference] = Reference(
        "DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference",
        2020,
        "https://aclanthology.org/2020.acl-main.204",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True
    forms: ClassVar[tuple[Form, ...]] = (
        Form("text and code", "normalize=false", "the entropy in nats"),
        Form("FastBERT, text and code", "normalize=true", "the entropy divided by ln C"),
    )
    beyond_the_score: ClassVar[tuple[str, ...]] = (
        "FastBERT's batch script exits on <=, its package on <: the same operating points under other thresholds.",
        "The rule is applied at the last layer too, with an exit head that training never touches.",
        'The printed "expected saving" is the share of layers used.',
    )

    normalize: bool = parameter(False, help="divide by ln C, as FastBERT does")

    def score(self, layer: Layer) -> Tensor:
        return layer.entropy / math.log(layer.classes) if self.normalize else layer.entropy
