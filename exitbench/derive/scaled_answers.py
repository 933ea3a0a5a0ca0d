"""The network's own logits, scaled and shifted class by class: what calibration methods end in."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.contract import DerivedAnswers, WeightBias


class ScaledAnswers(DerivedAnswers):
    """``a l + s`` at every internal layer; ``scales`` has (a [classes], s [classes]) for each.

    Where the network's heads are known they are scaled too, and stay linear.
    """

    def __init__(self, network: Cache, scales: Sequence[WeightBias]) -> None:
        self.scales = scales
        if network.has_heads:
            weights, biases = network.head_tensors()
            self.heads = [
                (scale[:, None] * weights[m].double(), scale * biases[m].double() + shift)
                for m, (scale, shift) in enumerate(scales)
            ]

    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        return [
            source.logits(layer, rows).double() * scale + shift for layer, (scale, shift) in enumerate(self.scales, 1)
        ]
