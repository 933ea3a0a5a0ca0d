"""Some samples of all layers: by id, or so few at a time that what is derived from their logits stays small in memory.

With two classes the logits of a layer are nothing beside its features. With 150 they are half as much, and every
quantity in float64 that is derived from them (probabilities, a regression's columns) is a layer's features again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol, overload, runtime_checkable

import torch
from torch import Tensor

from exitbench.signals.contract.feature_statistics import evenly
from exitbench.signals.contract.layer import Layer, LayerSlice

ENTRIES = 1 << 23
"""The most numbers (samples times columns) of one regression, 0.07 GB: of more samples some are taken."""
TOGETHER = 1 << 20
"""The most logits from which something is derived at once."""


@runtime_checkable
class ReadLayers(Protocol):
    """Layers that read the samples that are asked for, and no others: those of a cache, and some of these."""

    def of_rows(self, rows: Tensor) -> Sequence[Layer]:
        """The layers with the samples at ``rows`` (an index or a mask) only."""


class TakenLayers(Sequence[Layer]):
    """The layers with the samples at ``rows`` (an index or a mask) only, each taken when it is asked for.

    Without ``rows`` they are all there. Where the layers read what is asked for, no more than these samples is read.
    """

    def __init__(self, layers: Sequence[Layer], rows: Tensor | None) -> None:
        if rows is not None and isinstance(layers, ReadLayers):
            layers, rows = layers.of_rows(rows), None
        self.layers, self.chosen = layers, rows

    def of_rows(self, rows: Tensor) -> Sequence[Layer]:
        """The layers with the samples at ``rows`` of these only."""
        return TakenLayers(self.layers, rows if self.chosen is None else self.chosen[rows])

    def __len__(self) -> int:
        return len(self.layers)

    @overload
    def __getitem__(self, position: int) -> Layer: ...
    @overload
    def __getitem__(self, position: slice) -> Sequence[Layer]: ...
    def __getitem__(self, position: int | slice) -> Layer | Sequence[Layer]:
        if isinstance(position, slice):
            return LayerSlice(self, range(len(self))[position])
        return self._taken(self.layers[position])

    def _taken(self, layer: Layer) -> Layer:
        return layer if self.chosen is None else layer.take(self.chosen)


class ById(TakenLayers):
    """Layers with their samples in the order of their ids, so that no sum can depend on the order they came in."""

    def __init__(self, layers: Sequence[Layer]) -> None:
        ids = layers[0].ids
        self.rows = torch.argsort(ids, stable=True)
        self.sorted = bool(torch.equal(self.rows, torch.arange(len(ids), device=ids.device)))
        super().__init__(layers, None if self.sorted else self.rows)


def few_enough(calibration: Sequence[Layer], labels: Tensor, columns: int) -> tuple[Sequence[Layer], Tensor]:
    """The layers and labels of as many samples, evenly over the ids, as make :data:`ENTRIES` numbers at most.

    ``columns`` is the number of columns that a sample has in the regression. Mostly that is all of them.
    """
    most = max(ENTRIES // columns, 1)
    if len(labels) <= most:
        return calibration, labels
    rows = torch.from_numpy(evenly(len(labels), most))
    return TakenLayers(calibration, rows), labels[rows]


def row_ranges(samples: int, numbers: int, most: int) -> Iterator[Tensor]:
    """Positions of all samples in ranges of at most ``most`` numbers, of which every sample has ``numbers``."""
    together = max(most // numbers, 1)
    for start in range(0, samples, together):
        yield torch.arange(start, min(start + together, samples))


def logit_blocks(layer: Layer) -> Iterator[Layer]:
    """The layer in parts of at most :data:`TOGETHER` logits, each with what is derived from it; mostly that is one."""
    if layer.logits.numel() <= TOGETHER:
        yield layer
        return
    for rows in row_ranges(layer.samples, layer.classes, TOGETHER):
        yield layer.take(rows)
