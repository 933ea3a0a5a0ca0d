"""fDBD: exit when the feature is far from every decision boundary, for its distance from the centre.

.. math:: s_m = \\frac{1}{\\|x - \\mu\\|} \\sum_{c \\ne y} \\frac{l_y - l_c}{\\|W_y - W_c\\|}, \\qquad
   \\text{exit when } s_m \\ge \\tau

Each summand is the distance of x from the boundary between its class and another; :math:`\\mu` is the mean feature of
the calibration samples at that layer. A class whose head row equals the answer's has no boundary and adds nothing.

Reference: Liu, Qin, *Fast Decision Boundary based Out-of-Distribution Detector*, ICML 2024.

Where the publication differs: it takes the mean over the other classes, a constant factor, looks for inputs of unknown
kinds at the last layer, and takes the mean of training features. With two classes it is the margin of the logits over
the distance from the centre.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Packed,
    class_means,
    pack,
    require_features,
    require_rows,
    squared_distances,
    unpack,
)
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.parameters import learned
from exitbench.signals.contract.signal import ExitSignal, Reference
from exitbench.signals.contract.taken_layers import ById

CLOSEST = 1e-12
"""Distances from the centre are at least this, so that no score is infinite."""


@dataclass(frozen=True)
class FDBD(ExitSignal):
    """The distance to the decision boundaries over the distance from the centre."""

    name: ClassVar[str] = "fdbd"
    title: ClassVar[str] = "fDBD"
    reference: ClassVar[Reference] = Reference(
        "Fast Decision Boundary based Out-of-Distribution Detector", 2024, "https://arxiv.org/abs/2312.11536"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features", "head"})
    shift_invariant = True

    centres: tuple[Packed, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.centres is None

    @cached_property
    def points(self) -> list[Tensor]:
        """The centre of each layer, [1, width]."""
        return [unpack(packed) for packed in self.centres or ()]

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        everyone = np.zeros(len(labels), dtype=np.int64)
        centres = [
            pack(class_means(require_rows(self.text, layer), everyone, 1)[0]) for layer in ById(calibration)[:-1]
        ]
        return dataclasses.replace(self, centres=tuple(centres))

    def score(self, layer: Layer) -> Tensor:
        if layer.head is None or self.centres is None or layer.index > len(self.centres):
            lacks = "heads" if layer.head is None else f"a fit that has seen layer {layer.index}"
            raise InputError(f"layer {layer.index}: signal {self.text} needs {lacks}")
        features, answer = require_features(self.text, layer), layer.prediction
        weight = layer.head.weight.double()
        apart = torch.cdist(weight, weight)[answer]
        lead = layer.logits64.gather(1, answer[:, None]) - layer.logits64
        distances = torch.where(apart > 0, lead / apart.clamp(min=CLOSEST), 0.0).sum(dim=1)
        return distances / squared_distances(features, self.points[layer.index - 1])[:, 0].sqrt().clamp(min=CLOSEST)
