"""Max-logit: exit when the largest logit is high.

.. math:: s_m = \\max_c l_{m,c}, \\qquad \\text{exit when } s_m \\ge \\tau

``center=true`` first subtracts each sample's mean over the classes, a direction that cross entropy never trains and
the largest logit, unlike a softmax, sees.

Reference: Hendrycks, Basart, Mazeika, Zou, Kwon, Mostajabi, Steinhardt, Song, *Scaling Out-of-Distribution Detection
for Real-World Settings*, ICML 2022.

Where the publication differs: it looks for inputs of unknown kinds at the last layer of a whole network, and negates
the number into an anomaly score. With two classes and ``center=true`` it is half the margin of the logits.
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class MaxLogit(ExitSignal):
    """The largest logit."""

    name: ClassVar[str] = "max-logit"
    title: ClassVar[str] = "Max-logit"
    reference: ClassVar[Reference] = Reference(
        "Scaling Out-of-Distribution Detection for Real-World Settings", 2022, "https://arxiv.org/abs/1911.11132"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})

    center: bool = parameter(False, help="subtract the class mean first")

    @property
    def shift_invariant(self) -> bool:
        return self.center

    def score(self, layer: Layer) -> Tensor:
        largest = layer.logits64.amax(dim=1)
        return largest - layer.logits64.mean(dim=1) if self.center else largest
