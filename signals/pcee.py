"""PCEE-BERT: exit when several layers in a row were confident.

.. math:: s_m = \\max_{m-t < j \\le m} H(p_j) / \\ln C, \\qquad \\text{exit when } s_m < \\tau

The window takes the layers there are, and no sample exits before layer t.

Reference: Zhang, Zhu, Zhang, Wang, Jin, Chung, *PCEE-BERT: Accelerating BERT Inference via Patient and Confident Early
Exiting*, Findings of NAACL 2022.

Text and code: the same rule, so there is one form: normalised entropy, no condition that the layers agree on the label,
earliest exit at layer t. Not of the score: the code's script sets t = 2 and thresholds k/18 and prints
``1 - mean layer / M`` as its speed-up.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.patience import empty_window, largest, push
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class PCEE(ExitSignal):
    """The largest of the last few normalised entropies."""

    name: ClassVar[str] = "pcee"
    title: ClassVar[str] = "PCEE-BERT"
    reference: ClassVar[Reference] = Reference(
        "PCEE-BERT: Accelerating BERT Inference via Patient and Confident Early Exiting",
        2022,
        "https://aclanthology.org/2022.findings-naacl.25",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})
    shift_invariant = True
    beyond_the_score: ClassVar[tuple[str, ...]] = (
        "Its script sets t = 2 and thresholds k/18.",
        "Its speed-up is 1 - mean layer / M.",
    )

    patience: int = parameter(2, grid=(1, 2, 3, 4, 5, 6), at_least=1, help="how many confident layers in a row")

    @property
    def first_exit_layer(self) -> int:
        return self.patience

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        entropy = layer.entropy / math.log(layer.classes)
        window = push(empty_window(entropy, self.patience) if state is None else state, entropy)
        return largest(window), window
