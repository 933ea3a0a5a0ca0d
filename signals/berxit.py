"""BERxiT's learning-to-exit unit, on a frozen network: a linear map of the feature that says whether the head is right.

.. math:: s_m = w_{m, y_m} \\cdot x_m + c_{m, y_m}, \\qquad \\text{exit when } s_m \\ge \\tau

``form=published`` has one map for all layers and classes, ``w . x + c``. On a frozen network that form is weak by
construction: with two classes certainty is an even function of the position along the head's direction, which no
linear function is. ``form=class-conditional``, the default, has a map per layer and predicted class and can express it.

Both minimise the mean squared error to [answer right] with a ridge penalty, ``penalty`` times the mean variance of the
features: a closed form, from sums over blocks of rows, so that memory holds a block and these sums.

Reference: Xin, Tang, Yu, Lin, *BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression*,
EACL 2021.

Where published code differs: its unit has a sigmoid and is trained with the network, whose features it shapes; that is
lost here. It outputs uncertainty and exits below a threshold; and it learns from training rows, nearly all right.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from exitbench.exit_rule import Direction
from exitbench.signals.contract.feature_statistics import (
    Array,
    Packed,
    blocks,
    members,
    pack,
    require_features,
    require_rows,
    unpack,
)
from exitbench.signals.contract.layer import FeatureRows, Input, Layer
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Reference

ENTRIES = 1 << 25
"""Numbers in the sums that one pass over the rows fills (0.25 GB): with many classes there are more passes."""


@dataclass(frozen=True)
class BERxiT(LearnedSignal):
    """A linear estimate of whether the answer is right."""

    name: ClassVar[str] = "berxit"
    title: ClassVar[str] = "BERxiT"
    reference: ClassVar[Reference] = Reference(
        "BERxiT: Early Exiting for BERT with Better Fine-Tuning and Extension to Regression",
        2021,
        "https://aclanthology.org/2021.eacl-main.8",
    )
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    shift_invariant = True

    form: str = parameter(
        "class-conditional", choices=("class-conditional", "published"), help="a map per layer and class, or one map"
    )
    penalty: float = parameter(10.0, grid=(1.0, 10.0, 100.0), above=0, help="of the ridge, in mean feature variances")
    maps: tuple[Packed, ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.maps is None

    @property
    def needs_one_width(self) -> bool:
        return self.form == "published"

    @property
    def fitted_parameters(self) -> int:
        return super().fitted_parameters // (len(self.maps) if self.form == "published" and self.maps else 1)

    @cached_property
    def tensors(self) -> list[Tensor]:
        """Slopes and, last, intercept of each class at each layer, [classes, width + 1]."""
        return [unpack(packed) for packed in self.maps or ()]

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        shared: Moments | None = None
        maps = []
        for layer in calibration[:-1]:
            features = require_rows(self.text, layer)
            right = (layer.prediction == labels).double().cpu().numpy()
            answers = layer.prediction.cpu().numpy()
            if self.form == "published":
                (everyone,) = Moments.of_classes(features, right, np.zeros_like(answers), range(1))
                shared = everyone.plus(shared)
            else:
                maps.append(pack(self._class_maps(features, right, answers, layer.classes)))
        if shared is not None:
            maps = [pack(shared.ridge(self.penalty)[None])] * (len(calibration) - 1)
        return dataclasses.replace(self, maps=tuple(maps))

    def _class_maps(self, features: FeatureRows, right: Array, answers: NDArray[np.int64], classes: int) -> Array:
        """Slopes and intercept for each predicted class, [classes, width + 1]; one never predicted has that of all."""
        together = max(1, ENTRIES // features.shape[1] ** 2)
        maps: list[Array] = []
        everyone: Moments | None = None
        for start in range(0, classes, together):
            numbers = range(start, min(start + together, classes))
            for part in Moments.of_classes(features, right, answers, numbers):
                everyone = part.plus(everyone)
                maps.append(part.ridge(self.penalty) if part.rows else np.empty(0))
        assert everyone is not None
        return np.stack([fitted if len(fitted) else everyone.ridge(self.penalty) for fitted in maps])

    def score(self, layer: Layer) -> Tensor:
        self.require_layer(layer, self.maps)
        values = require_features(self.text, layer).double()
        maps = self.tensors[layer.index - 1].to(values.device)
        own = maps[layer.prediction] if len(maps) > 1 else maps.expand(len(values), -1)
        return (values * own[:, :-1]).sum(dim=1) + own[:, -1]


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums over rows from which a linear regression follows: of x, of x x^T, of x t and of t."""

    rows: int
    first: Array
    second: Array
    cross: Array
    target: float

    @classmethod
    def of_classes(
        cls, features: FeatureRows, target: Array, answers: NDArray[np.int64], numbers: range
    ) -> "list[Moments]":
        """The sums over the rows of each of some predicted classes, in one pass."""
        width = features.shape[1]
        first, second, cross = (
            {number: np.zeros(shape) for number in numbers} for shape in (width, (width, width), width)
        )
        for rows, values in blocks(features):
            for number, chosen in members(answers[rows]):
                if number not in numbers:
                    continue
                inside = values[chosen]
                first[number] += inside.sum(axis=0)
                second[number] += inside.T @ inside
                cross[number] += target[rows][chosen] @ inside
        return [
            cls(int(chosen.sum()), first[number], second[number], cross[number], float(target[chosen].sum()))
            for number, chosen in ((number, answers == number) for number in numbers)
        ]

    def plus(self, other: "Moments | None") -> "Moments":
        """The sums over both sets of rows."""
        if other is None:
            return self
        return Moments(
            self.rows + other.rows,
            self.first + other.first,
            self.second + other.second,
            self.cross + other.cross,
            self.target + other.target,
        )

    def ridge(self, penalty: float) -> Array:
        """Slopes and intercept, [width + 1], of the ridge regression whose penalty is in mean variances per row."""
        from scipy.linalg import solve

        mean, rate = self.first / self.rows, self.target / self.rows
        covariance = self.second / self.rows - np.outer(mean, mean)
        scale = max(float(np.trace(covariance)) / len(mean), 1e-12)
        shrunk = covariance + penalty * scale * np.eye(len(mean))
        slopes = solve(shrunk, self.cross / self.rows - rate * mean, assume_a="pos")
        return np.append(slopes, rate - slopes @ mean)
