"""SHE: exit when the feature looks like those of right answers of the same class.

.. math:: s_m = x_m \\cdot \\mu_{m, y_m}, \\qquad \\text{exit when } s_m \\ge \\tau

with :math:`\\mu_{m,c}` the mean feature of the calibration samples that layer m answered rightly with class c (0 where
there is none). ``form=cosine`` takes the cosine in place of the inner product.

Reference: Zhang, Fu, Chen, Du, Li, Wang, Liu, Han, Zhang, *Out-of-Distribution Detection based on In-Distribution Data
Patterns Memorization with Modern Hopfield Energy*, ICLR 2023.

Where the publication differs: it looks for inputs of unknown kinds at the last layer of a whole network, with means of
training samples. Here every layer has means of its own, from calibration samples.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Packed,
    class_means,
    lengths,
    pack,
    require_features,
    require_rows,
    unpack,
)
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class SHE(LearnedSignal):
    """The likeness of the feature to the mean of right answers of its class."""

    name: ClassVar[str] = "she"
    title: ClassVar[str] = "SHE"
    reference: ClassVar[Reference] = Reference(
        "Out-of-Distribution Detection based on In-Distribution Data Patterns Memorization with Modern Hopfield Energy",
        2023,
        "https://openreview.net/forum?id=KkazG4lgKL",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    shift_invariant = True

    form: str = parameter("product", choices=("product", "cosine"), help="how likeness is measured")
    means: tuple[Packed, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.means is None

    @cached_property
    def points(self) -> list[Tensor]:
        """The means of each layer, [classes, width]."""
        return [unpack(packed) for packed in self.means or ()]

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        every = []
        for layer in calibration[:-1]:
            answers = layer.prediction.cpu().numpy()
            groups = np.where(answers == labels.cpu().numpy(), answers, -1)
            means, counts = class_means(require_rows(self.text, layer), groups, layer.classes)
            every.append(pack(np.where(counts[:, None] > 0, means, 0.0)))
        return dataclasses.replace(self, means=tuple(every))

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.means)
        values = require_features(self.text, layer).double()
        own = self.points[layer.index - 1].to(values.device)[layer.prediction]
        product = (values * own).sum(dim=1)
        if self.form == "product":
            return product
        return product / (lengths(values) * lengths(own)).clamp(min=torch.finfo(torch.float64).tiny)
