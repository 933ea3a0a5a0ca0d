"""Output: exit by a number that the network itself gave beside its logits.

.. math:: s_m = o_m, \\qquad \\text{exit when } s_m \\ge \\tau

with :math:`o_m` the extra output ``name`` of the cache: BERxiT's unit trained with the network (``name=lte``), a hazard
of PALBERT, a policy of ConsistentEE. Of an output with several numbers per sample ``entry`` chooses one, from 0.
``factor=-1`` negates it, for outputs that say how unsure the network is.

Reference: Xin, Tang, Yu, Lin, *BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression*,
EACL 2021, for the output that is read by default.

Where published code differs: BERxiT's outputs uncertainty and exits strictly below a threshold (``factor=-1`` here).
"""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import OUTPUT, Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference


@dataclass(frozen=True)
class NamedOutput(ExitSignal):
    """An extra output of the network."""

    name: ClassVar[str] = "output"
    title: ClassVar[str] = "Output"
    reference: ClassVar[Reference] = Reference(
        "BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression",
        2021,
        "https://aclanthology.org/2021.eacl-main.8",
    )
    exits_when: ClassVar[Direction] = ">="
    shift_invariant = True

    output: str = parameter("lte", written="name", help="the output to read")
    entry: int = parameter(0, at_least=0, help="which number of an output that has several")
    factor: float = parameter(1.0, help="what it is multiplied by: -1 where a large output means unsure")

    @property
    def inputs(self) -> frozenset[Input]:  # type: ignore[override]
        return frozenset({f"{OUTPUT}{self.output}"})

    def score(self, layer: Layer) -> Tensor:
        values = layer.outputs[self.output].double()
        numbers = values[:, None] if values.ndim == 1 else values
        if self.entry >= numbers.shape[1]:
            raise InputError(
                f"signal {self.text}: the output {self.output!r} has {numbers.shape[1]} numbers per sample, "
                f"found entry {self.entry}"
            )
        return self.factor * numbers[:, self.entry]
