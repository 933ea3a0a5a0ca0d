"""Class means (E2CM): an exit answers with the class whose mean feature is nearest.

.. math:: l_{m,c} = - \\frac{\\|x_m - \\mu_{m,c}\\|}{\\bar d_{m,c}}, \\qquad
    \\mu_{m,c} = \\mathrm{mean}\\{x_{m,i} : y_i = c\\}, \\quad
    \\bar d_{m,c} = \\mathrm{mean}\\{\\|x_{m,i} - \\mu_{m,c}\\| : y_i = c\\}

No gradient is needed. That distances are divided by the mean distance of the class's own training rows is the reading
of a second-hand text; the published normaliser could not be read. A class without rows cannot be an answer, so it is
refused; a class whose rows are all alike is divided by 1.

Reference: Görmez, Dasari, Koyuncu, *E2CM: Early Exit via Class Means for Efficient Supervised and Unsupervised
Learning*, IJCNN 2022.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.cache import Cache
from exitbench.derive.calibration_rows import Array, feature_blocks
from exitbench.derive.contract import AnswerMethod, DerivedAnswers, Need
from exitbench.derive.kept_rows import KeptRows
from exitbench.errors import InputError
from exitbench.signals.contract.signal import Reference


class ClassMeanAnswers(DerivedAnswers):
    """Negative distances; ``means`` has [classes, width] and the mean distances [classes] of every internal layer."""

    not_linear = "a distance from a class mean is not linear in the features"

    def __init__(self, means: list[tuple[Tensor, Tensor]]) -> None:
        self.means = means

    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        answers = []
        for layer, (means, distances) in enumerate(self.means, 1):
            features = source.features(layer, rows).double()
            room, away = torch.empty_like(features), features.new_empty(len(features), len(means))
            for number, mean in enumerate(means):  # one array for all classes: the C library keeps what is made anew
                torch.linalg.vector_norm(torch.sub(features, mean, out=room), dim=1, out=away[:, number])
            answers.append(-away / distances)
        return answers


@dataclass(frozen=True)
class ClassMeans(AnswerMethod):
    """The nearest class mean."""

    name: ClassVar[str] = "class-means"
    title: ClassVar[str] = "Class means (E2CM)"
    reference: ClassVar[Reference] = Reference(
        "E2CM: Early Exit via Class Means for Efficient Supervised and Unsupervised Learning",
        2022,
        "https://arxiv.org/abs/2103.01148",
    )
    needs: ClassVar[frozenset[Need]] = frozenset({"features", "labels"})

    def fit(self, calibration: Cache) -> ClassMeanAnswers:
        counts = np.bincount(calibration.labels, minlength=calibration.classes)
        if not counts.all():
            name = calibration.manifest.task.classes[int(counts.argmin())]
            raise InputError(
                f"method {self.text} needs rows of every class, and cache {calibration.name} has none of {name!r}"
            )
        return ClassMeanAnswers([self._layer(calibration, layer, counts) for layer in range(1, calibration.layers)])

    def _layer(self, calibration: Cache, layer: int, counts: NDArray[np.intp]) -> tuple[Tensor, Tensor]:
        labels, read = calibration.labels, feature_blocks(calibration, layer)
        sums, distances, start = None, np.zeros(calibration.classes), 0
        for block in read():
            part = class_sums(block, labels[start : start + len(block)], calibration.classes)
            sums, start = part if sums is None else sums + part, start + len(block)
        assert sums is not None  # every class has a row
        means, start, room = sums / counts[:, None], 0, KeptRows()
        for block in read():
            own = labels[start : start + len(block)]
            away = np.take(means, own, axis=0, out=room(*block.shape), mode="clip")
            np.square(np.subtract(block, away, out=away), out=away)
            lengths = np.sqrt(away.sum(axis=1))
            distances += np.bincount(own, weights=lengths, minlength=calibration.classes)
            start += len(block)
        distances /= counts
        distances[distances == 0.0] = 1.0
        return torch.from_numpy(means), torch.from_numpy(distances)


def class_sums(block: Array, labels: NDArray[np.int64], classes: int) -> Array:
    """The sum of the rows of each class, [classes, width]."""
    sums = np.zeros((classes, block.shape[1]))
    np.add.at(sums, labels, block)
    return sums
