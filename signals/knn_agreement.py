"""kNN agreement: exit when the calibration samples nearest to the feature have the answer as their label.

.. math:: s_m = \\frac{1}{k} \\sum_{i \\in N_k(x_m)} [\\,y_i = y_m\\,], \\qquad \\text{exit when } s_m \\ge \\tau

over the k nearest, by the angle between features, of a bank of calibration samples with their labels. A score has k + 1
values, so many samples tie; of equally near ones the smaller id counts.

The bank holds at most ``bank`` samples (500), evenly over the ids: its features travel with the fitted signal (in
float16, as caches store them), and a score costs a product with each of them. With more calibration samples than that,
some are not used.

Reference: Jiang, Kim, Guan, Gupta, *To Trust Or Not To Trust A Classifier*, NeurIPS 2018; Sun, Ming, Zhu, Li,
*Out-of-Distribution Detection with Deep Nearest Neighbors*, ICML 2022.

Where the publications differ: the trust score is a ratio of distances to classes, the second a distance to the k-th
neighbour; the share of labels that agree asks what an exit needs to know: is the answer right?
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Packed,
    evenly,
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
class KNNAgreement(LearnedSignal):
    """The share of the nearest calibration samples whose label is the answer."""

    name: ClassVar[str] = "knn-agreement"
    title: ClassVar[str] = "kNN agreement"
    reference: ClassVar[Reference] = Reference(
        "To Trust Or Not To Trust A Classifier", 2018, "https://arxiv.org/abs/1805.11783"
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    shift_invariant = True
    exceptions: ClassVar[dict[str, str]] = {
        "feature_precision": "its score is a count of neighbours, and a rounded feature can change one"
    }

    neighbours: int = parameter(20, grid=(5, 20, 50), at_least=1, help="k")
    bank: int = parameter(500, at_least=1, help="the most samples to compare with")
    features: tuple[Packed, ...] | None = learned()
    labels: tuple[int, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.features is None

    @cached_property
    def tensors(self) -> list[Tensor]:
        """The directions of each layer's bank, [samples, width]."""
        return [directions(unpack(packed)) for packed in self.features or ()]

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        chosen = torch.from_numpy(evenly(len(labels), self.bank))
        features = [
            pack(require_rows(self.text, layer)[chosen].double().cpu().numpy(), "float16") for layer in calibration[:-1]
        ]
        return dataclasses.replace(self, features=tuple(features), labels=tuple(map(int, labels[chosen])))

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.features)
        values = directions(require_features(self.text, layer).double())
        bank = self.tensors[layer.index - 1].to(values.device)
        # Rounded, so that the order of a sum, which depends on the batch, does not decide between equals: of these the
        # smaller id comes first, by a part of its own of numbers that are whole up to 2^53.
        near = (values @ bank.T).mul_(1e9).round_().mul_(len(bank)).sub_(torch.arange(len(bank), device=values.device))
        nearest = near.topk(min(self.neighbours, len(bank)), dim=1, sorted=False).indices
        agrees = torch.tensor(self.labels, device=values.device)[nearest] == layer.prediction[:, None]
        return agrees.double().mean(dim=1)


def directions(values: Tensor) -> Tensor:
    """Features [samples, width] at length 1; zeros stay."""
    return values / lengths(values)[:, None].clamp(min=torch.finfo(torch.float64).tiny)
