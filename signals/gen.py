"""GEN, the generalised entropy: exit when few classes have a probability that is neither 0 nor 1.

.. math:: s_m = -\\sum_{c \\in \\text{top } k} p_{m,c}^\\gamma (1 - p_{m,c})^\\gamma, \\qquad
   \\text{exit when } s_m \\ge \\tau

over the k most probable classes. A small gamma looks at how far the small probabilities are from 0.

Reference: Liu, Lochman, Zach, *GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection*, CVPR 2023.

Where the publication differs: it looks for inputs of unknown kinds at the last layer, with ``gamma = 0.1`` and the 100
largest of a thousand classes; with fewer classes than k all of them count.

With two classes it ranks, for every gamma, as max-softmax and entropy do. Precision: powers are taken of logarithms,
with ``1 - p`` of the best class from the other classes, so that confident answers keep full float64 precision.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class GEN(ExitSignal):
    """The negative generalised entropy of the most probable classes."""

    name: ClassVar[str] = "gen"
    title: ClassVar[str] = "GEN"
    reference: ClassVar[Reference] = Reference(
        "GEN: Pushing the Limits of Softmax-Based Out-of-Distribution Detection",
        2023,
        "https://openaccess.thecvf.com/content/CVPR2023/html/"
        "Liu_GEN_Pushing_the_Limits_of_Softmax-Based_Out-of-Distribution_Detection_CVPR_2023_paper.html",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True

    gamma: float = parameter(0.1, grid=(0.01, 0.1, 0.5, 1.0), above=0, help="the power of p and of 1 - p")
    top: int = parameter(100, grid=(2, 100), at_least=2, help="how many of the most probable classes count")

    def score(self, layer: Layer) -> Tensor:
        terms = ((layer.log_probabilities + layer.log_complements) * self.gamma).exp()
        if self.top < layer.classes:
            # p (1 - p) is not monotone in p, so the classes are chosen by p.
            terms = terms.gather(1, layer.log_probabilities.topk(self.top, dim=1).indices)
        return -terms.sum(dim=1)
