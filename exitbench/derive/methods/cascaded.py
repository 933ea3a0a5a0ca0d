"""Cascaded heads (Zero Time Waste): every head also reads what the head before it said.

.. math:: l_m = W_m [\\, x_m ;\\; \\mathrm{LayerNorm}(l_{m-1}) \\,] + b_m

The gradient stops at ``l_{m-1}``, so with a frozen network each head solves a convex problem of its own once the heads
before it are known: they are fitted one after another, and that is the optimum of the published sum of losses. The
layer norm's own scale and shift are part of ``W_m`` and ``b_m``. With two classes a layer norm leaves nothing but the
sign of the difference.

Reference: Wołczyk et al., *Zero Time Waste: Recycling Predictions in Early Exit Neural Networks*, NeurIPS 2021.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import Array, feature_blocks, label_targets
from exitbench.derive.contract import AnswerMethod, DerivedAnswers, Need, WeightBias
from exitbench.derive.kept_rows import KeptRows
from exitbench.derive.softmax_regression import Blocks, softmax_head
from exitbench.signals.contract.parameters import parameter
from exitbench.signals.contract.signal import Reference

EPSILON = 1e-5
"""Added to the variance, as torch's layer norm does."""


class CascadedAnswers(DerivedAnswers):
    """Heads in a chain; ``chain`` has a weight [classes, width + classes] (the first: [classes, width]) and a bias."""

    not_linear = "a cascaded head also reads the answer before it, so its answer is not linear in the features"

    def __init__(self, chain: list[WeightBias]) -> None:
        self.chain = chain

    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        said: list[Tensor] = []
        for layer, (weight, bias) in enumerate(self.chain, 1):
            read = source.features(layer, rows).double()
            if said:
                read = torch.cat([read, layer_normalised(said[-1])], dim=1)
            said.append(read @ weight.T + bias)
        return said


@dataclass(frozen=True)
class CascadedHeads(AnswerMethod):
    """Heads that read the features and the answer of the head before."""

    name: ClassVar[str] = "cascaded"
    title: ClassVar[str] = "Cascaded heads (ZTW)"
    reference: ClassVar[Reference] = Reference(
        "Zero Time Waste: Recycling Predictions in Early Exit Neural Networks", 2021, "https://arxiv.org/abs/2106.05409"
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features", "labels"})

    penalty: float = parameter(0.01, grid=(0.001, 0.01, 0.1), above=0, help="of the squared weights")

    def fit(self, calibration: Cache) -> CascadedAnswers:
        targets = label_targets(calibration)
        chain: list[WeightBias] = []
        before: Array | None = None
        for layer in range(1, calibration.layers):
            read = beside(feature_blocks(calibration, layer), before)
            weight, bias = softmax_head(read, targets, penalty=self.penalty)
            chain.append((torch.from_numpy(weight), torch.from_numpy(bias)))
            before = np.empty((calibration.rows, calibration.classes)) if before is None else before
            write_normalised_answers(read, weight, bias, before)
        return CascadedAnswers(chain)


def write_normalised_answers(read: Blocks, weight: Array, bias: Array, into: Array) -> None:
    """Write what a head says of all rows after the layer norm into an array [samples, classes], a block at a time.

    The head may read that array too, as :func:`beside` does: a block has a copy of its rows before they are written.
    """
    start = 0
    for block in read():
        stop = start + len(block)
        into[start:stop] = layer_normalised(torch.from_numpy(block @ weight.T + bias)).numpy()
        start = stop


def layer_normalised(logits: Tensor) -> Tensor:
    """The layer norm of every row, without scale and shift."""
    centred = logits - logits.mean(dim=1, keepdim=True)
    return centred / (centred.square().mean(dim=1, keepdim=True) + EPSILON).sqrt()


def beside(read: Blocks, more: Array | None) -> Blocks:
    """Blocks of rows with more columns, [samples, k], beside theirs."""
    if more is None:
        return read

    def wider() -> Iterator[Array]:
        start, room = 0, KeptRows()
        for block in read():
            rows, columns = block.shape
            wide = room(rows, columns + more.shape[1])
            wide[:, :columns], wide[:, columns:] = block, more[start : start + rows]
            yield wide
            start += rows

    return wider
