"""EDR, the score of DE3-BERT: entropy and the distance to class prototypes, as a weighted harmonic mean.

.. math:: \\mathrm{DR} = \\tfrac12 \\Big(1 + \\frac{r_1 - r_2}{\\max(r_1, r_2)}\\Big), \\qquad
   s_m = \\frac{\\lambda + 1}{\\lambda / \\mathrm{DR} + 1 / \\mathrm{H}}, \\qquad \\text{exit when } s_m < \\tau

with H the entropy over ln C, :math:`r_1` the distance of the feature to the prototype of the predicted class and
:math:`r_2` that to the nearest other one. A prototype is the mean feature of a class among the calibration samples.

Reference: He, Zhang, Zhang, Duan, Wei, *DE3-BERT: Distance-Enhanced Early Exiting for BERT based on Prototypical
Networks*, 2024.

Where the publication differs: its prototypical networks and their distance-aware regulariser are trained, and no code
is public; the text read here does not say which prototypes r_1 and r_2 belong to, so the choice above is this file's.
The grid of lambda is this file's too. Where DR or H is 0 the score is 0.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import torch
from torch import Tensor

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
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference


@dataclass(frozen=True)
class EDR(LearnedSignal):
    """The harmonic mean of entropy and distance ratio."""

    name: ClassVar[str] = "edr"
    title: ClassVar[str] = "EDR (DE3-BERT)"
    reference: ClassVar[Reference] = Reference(
        "DE3-BERT: Distance-Enhanced Early Exiting for BERT based on Prototypical Networks",
        2024,
        "https://arxiv.org/abs/2402.05948",
    )
    exits_when: ClassVar[Direction] = "<"
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    shift_invariant = True

    weight: float = parameter(1.0, grid=(0.1, 0.5, 1.0, 2.0, 10.0), above=0, help="lambda, the weight of the distances")
    prototypes: tuple[Packed, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.prototypes is None

    @cached_property
    def points(self) -> list[Tensor]:
        """The prototypes of each layer, [classes, width]."""
        return [unpack(packed) for packed in self.prototypes or ()]

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        groups = labels.cpu().numpy()
        prototypes = [
            pack(class_means(require_rows(self.text, layer), groups, layer.classes)[0]) for layer in calibration[:-1]
        ]
        return dataclasses.replace(self, prototypes=tuple(prototypes))

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.prototypes)
        distances = squared_distances(require_features(self.text, layer), self.points[layer.index - 1]).sqrt()
        ratio = distance_ratio(distances, layer.prediction)
        entropy = layer.entropy / math.log(layer.classes)
        below = self.weight * entropy + ratio
        return torch.where(below > 0, (self.weight + 1.0) * ratio * entropy / below.clamp(min=1e-300), 0.0)


def distance_ratio(distances: Tensor, answer: Tensor) -> Tensor:
    """DR in [0, 1], [samples]: small where the prototype of the answer is much nearer than any other."""
    own = distances.gather(1, answer[:, None])[:, 0]
    other = distances.scatter(1, answer[:, None], torch.inf).amin(dim=1)
    largest = torch.maximum(own, other)
    return torch.where(largest > 0, (1.0 + (own - other) / largest.clamp(min=1e-300)) / 2.0, 0.5)
