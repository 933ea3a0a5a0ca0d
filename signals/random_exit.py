"""Random exit policy: a score that knows nothing about the sample, the floor under every signal.

The score is uniform in [0, 1) and a function of (seed, sample id, layer) alone: never of the order of rows, the batch,
the device or what else was drawn. A sample exits when it is at least the threshold.

The mixing is SplitMix64's finaliser (Steele, Lea, Flood, *Fast Splittable Pseudorandom Number Generators*, OOPSLA
2014), in wrapping 64-bit integer arithmetic.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import ExitSignal, Reference

GOLDEN = 0x9E3779B97F4A7C15
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def as_signed_64(word: int) -> int:
    """The low 64 bits of ``word`` as the signed integer that a tensor of int64 holds."""
    word &= (1 << 64) - 1
    return word - (1 << 64) if word >> 63 else word


def shifted(words: Tensor, bits: int) -> Tensor:
    """Unsigned right shift of int64 words; the tensor's own shift would copy the sign bit."""
    return (words >> bits) & ((1 << (64 - bits)) - 1)


def mixed(words: Tensor) -> Tensor:
    """SplitMix64's finaliser on int64 words of any shape."""
    words = words + as_signed_64(GOLDEN)
    words = (words ^ shifted(words, 30)) * as_signed_64(FIRST)
    words = (words ^ shifted(words, 27)) * as_signed_64(SECOND)
    return words ^ shifted(words, 31)


@dataclass(frozen=True)
class Random(ExitSignal):
    """An independent uniform number for every sample and layer."""

    name: ClassVar[str] = "random"
    title: ClassVar[str] = "Random"
    reference: ClassVar[Reference] = Reference(
        "Fast Splittable Pseudorandom Number Generators", 2014, "https://doi.org/10.1145/2714064.2660195"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"ids"})
    shift_invariant = True
    exceptions: ClassVar[dict[str, str]] = {
        "direction_agrees_with_accuracy": "a baseline that knows nothing about the sample"
    }

    seed: int = parameter(0, help="another seed, other numbers")

    def score(self, layer: Layer) -> Tensor:
        # The seed is mixed first: raw seeds would only swap the numbers of neighbouring ids.
        key = mixed(torch.tensor(as_signed_64(self.seed), device=layer.ids.device))
        words = mixed(mixed(layer.ids.long() ^ key) ^ layer.index)
        return shifted(words, 11).double() * 2.0**-53
