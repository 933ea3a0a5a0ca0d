"""What signals that learn which answers to trust have in common: their target, and the layers they cannot learn.

A target with hardly a wrong (or hardly a right) sample teaches nothing: a layer with fewer than :data:`FEWEST` of
either kind among all calibration samples has no score and no exit. That is decided once, before any fold is fitted.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.errors import InputError
from exitbench.signals.contract.layer import Layer
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.contract.taken_layers import ById, logit_blocks

FEWEST = 10
"""The fewest samples of each kind (right, wrong) that a layer's fit needs among all calibration samples."""


class UntaughtError(InputError):
    """The samples cannot teach a signal at any layer: there is nothing wrong, and nothing to score."""


@dataclass(frozen=True)
class LearnedSignal(ExitSignal):
    """A signal that learns, layer by layer, which answers to trust.

    ``target=right`` learns whether the answer equals the label; ``target=final`` whether it is the last layer's answer,
    which needs no label: the last layer's answers take the labels' place. A subclass writes :meth:`learn`, which is
    given samples in the order of their ids; what it tells apart is :meth:`lessons`, by default right and wrong.
    """

    target: str = parameter(
        "right", choices=("right", "final"), help="learn what is right, or what the last layer says"
    )
    untaught: tuple[tuple[int, int, int], ...] | None = learned()

    @property
    def unscored_layers(self) -> Mapping[int, str]:
        return {
            layer: f"{positive} of {rows} calibration samples at layer {layer} are {self.told_apart()[0]} and "
            f"{rows - positive} {self.told_apart()[1]}; a fit needs {FEWEST} of each"
            for layer, positive, rows in self.untaught or ()
        }

    def told_apart(self) -> tuple[str, str]:
        """The two kinds of samples, in words."""
        return ("right", "wrong") if self.target == "right" else ("as the last layer's", "other")

    def lessons(self, calibration: Sequence[Layer], labels: Tensor) -> Iterator[Tensor]:
        """For each layer which samples are of the first kind, [samples] bool."""
        return (layer.prediction == labels for layer in calibration)

    def learn(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        """The signal with what it learned from all layers of some samples, which are in the order of their ids."""
        raise TypeError(f"signal {self.name!r} does not override learn")

    def leave_out(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        if self.untaught is not None:
            return self
        lessons = self.lessons(calibration, self.taught_labels(calibration, labels))
        counts = [(int(lesson.sum()), lesson.numel()) for lesson in lessons][: len(calibration) - 1]
        untaught = [
            (layer, positive, rows)
            for layer, (positive, rows) in enumerate(counts, start=1)
            if min(positive, rows - positive) < FEWEST
        ]
        if len(untaught) == len(counts):
            most = max(min(positive, rows - positive) for positive, rows in counts)
            first, second = self.told_apart()
            raise UntaughtError(
                f"signal {self.text} needs {FEWEST} samples that are {first} and {FEWEST} that are {second} at some "
                f"layer to learn from; the best layer has {most} of the rarer kind among {counts[0][1]}"
            )
        return dataclasses.replace(self, untaught=tuple(untaught))

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        if labels.shape != (calibration[0].samples,) or not len(labels):
            raise InputError(
                f"signal {self.text} needs one label for each of {calibration[0].samples} samples (at least one), "
                f"found labels of shape {list(labels.shape)}"
            )
        taught = self.taught_labels(calibration, labels)
        ordered = ById(calibration)
        return self.learn(ordered, taught[ordered.rows])

    def taught_labels(self, calibration: Sequence[Layer], labels: Tensor) -> Tensor:
        """The labels, or the last layer's answers in their place, [samples]."""
        return calibration[-1].prediction if self.target == "final" else labels.to(calibration[0].logits.device)

    def require_layer(self, layer: Layer, fitted: Sequence[object] | None) -> None:
        """An InputError where it has not learned yet, or not about this layer."""
        if fitted is None:
            raise InputError(f"signal {self.text} must be fitted on a calibration set before it can score")
        if layer.index > len(fitted):
            raise InputError(f"signal {self.text} was fitted on {len(fitted)} layers, found layer {layer.index}")


def cross_entropies(calibration: Sequence[Layer], labels: Tensor) -> NDArray[np.float64]:
    """The loss of every layer's answer, ``-ln p(label)``, [layers, samples]."""
    losses = np.empty((len(calibration), len(labels)))
    for row, layer in zip(losses, calibration, strict=True):
        parts = [-block.log_probabilities_of(own[:, None])[:, 0] for block, own in with_labels(layer, labels)]
        row[:] = torch.cat(parts).cpu().numpy()
    return losses


def with_labels(layer: Layer, labels: Tensor) -> Iterator[tuple[Layer, Tensor]]:
    """The layer in blocks of samples, each with its part of the labels [samples]."""
    start = 0
    for block in logit_blocks(layer):
        yield block, labels[start : start + block.samples]
        start += block.samples
