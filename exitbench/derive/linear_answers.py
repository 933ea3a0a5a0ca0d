"""Answers of linear heads on the network's features: what several methods end in."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import feature_blocks
from exitbench.derive.contract import DerivedAnswers, WeightBias
from exitbench.derive.softmax_regression import Targets, softmax_head


class LinearAnswers(DerivedAnswers):
    """``W x + b`` with a new head for every internal layer, computed in float64 from the heads as they are stored."""

    def __init__(self, heads: Sequence[WeightBias]) -> None:
        self.heads = [(weight.float(), bias.float()) for weight, bias in heads]

    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        return [
            self.features(source, layer, rows).double() @ weight.double().T + bias.double()
            for layer, (weight, bias) in enumerate(self.heads or [], 1)
        ]


def fitted_heads(calibration: Cache, targets: Targets, penalty: float) -> LinearAnswers:
    """The head of smallest cross entropy towards ``targets`` [samples, classes] at every internal layer."""
    heads: list[WeightBias] = []
    for layer in range(1, calibration.layers):
        weight, bias = softmax_head(feature_blocks(calibration, layer), targets, penalty=penalty)
        heads.append((torch.from_numpy(weight), torch.from_numpy(bias)))
    return LinearAnswers(heads)
