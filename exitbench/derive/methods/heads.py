"""Linear heads trained anew on frozen features, by cross entropy with the labels.

.. math:: \\min_{W_m, b_m} \\; \\frac1n \\sum_i -\\ln \\mathrm{softmax}(W_m x_{m,i} + b_m)_{y_i}
    + \\frac{\\lambda}{2} \\|W_m\\|^2

This is the second stage of DeeBERT, where the network is frozen and only the internal heads are trained. Published
training stops early and drops features at random; here the penalty (over standardised features) takes their place, the
problem is convex and the answer is its one solution.

Reference: Xin, Tang, Lee, Yu, Lin, *DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference*, ACL 2020.
"""

from dataclasses import dataclass
from typing import ClassVar

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import label_targets
from exitbench.derive.contract import AnswerMethod, Need
from exitbench.derive.linear_answers import LinearAnswers, fitted_heads
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class TrainedHeads(AnswerMethod):
    """Linear heads by cross entropy."""

    name: ClassVar[str] = "heads"
    title: ClassVar[str] = "Heads trained on frozen features"
    reference: ClassVar[Reference] = Reference(
        "DeeBERT: Dynamic Early Exiting for Accelerating BERT Inference",
        2020,
        "https://aclanthology.org/2020.acl-main.204",
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features", "labels"})

    penalty: float = parameter(0.01, grid=(0.001, 0.01, 0.1), above=0, help="of the squared weights")

    def fit(self, calibration: Cache) -> LinearAnswers:
        return fitted_heads(calibration, label_targets(calibration), self.penalty)
