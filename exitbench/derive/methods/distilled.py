"""Linear heads that learn the last layer's probabilities: FastBERT's self-distillation, which needs no label.

.. math:: \\min_{W_m, b_m} \\; \\frac1n \\sum_i \\mathrm{KL}\\bigl(\\mathrm{softmax}(l_{M,i} / T) \\,\\|\\,
    \\mathrm{softmax}(W_m x_{m,i} + b_m)\\bigr) + \\frac{\\lambda}{2} \\|W_m\\|^2

The loss is that of FastBERT's second stage (T = 1). Its heads attend over tokens, which a cache does not hold: here
they are linear. Its teacher runs with dropout; here it is the cached answer.

Reference: Liu, Zhou, Wang, Zhao, Deng, Ju, *FastBERT: a Self-distilling BERT with Adaptive Inference Time*, ACL 2020.
"""

from dataclasses import dataclass
from typing import ClassVar

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import last_layer_targets
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.linear_answers import LinearAnswers, fitted_heads
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class DistilledHeads(AnswerMethod):
    """Linear heads towards the last layer's probabilities."""

    name: ClassVar[str] = "distilled"
    title: ClassVar[str] = "Distilled heads (FastBERT)"
    reference: ClassVar[Reference] = Reference(
        "FastBERT: a Self-distilling BERT with Adaptive Inference Time",
        2020,
        "https://aclanthology.org/2020.acl-main.537",
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features"})

    penalty: float = parameter(0.01, grid=(0.001, 0.01, 0.1), above=0, help="of the squared weights")
    temperature: float = parameter(1.0, above=0, help="divides the last layer's logits")

    def fit(self, calibration: Cache) -> LinearAnswers:
        return fitted_heads(calibration, last_layer_targets(calibration, self.temperature), self.penalty)
