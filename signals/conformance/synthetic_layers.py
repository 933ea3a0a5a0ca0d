"""Synthetic layers that look like those of a trained multi-exit network, for the conformance checks.

Every sample has a difficulty. With depth, the logit of its label rises, faster where it is easy; hard samples have
more of their feature outside the head's row space. So every sensible signal has something to see, at every number of
classes, and heads, features, offset norms and logits fit together as they do in a real cache.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Set
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.head_algebra import Head, head_algebra
from exitbench.signals.contract.layer import INPUTS, OUTPUT, Input, Layer

Array = NDArray[np.float64]


@dataclass(frozen=True)
class SyntheticLayers:
    """All layers of some samples, in order, with their labels [samples]."""

    layers: tuple[Layer, ...]
    labels: Tensor

    @property
    def internal(self) -> tuple[Layer, ...]:
        """The layers that are decisions: all but the last."""
        return self.layers[:-1]


def synthetic_layers(
    samples: int = 48,
    *,
    depth: int = 8,
    classes: int = 3,
    width: int = 24,
    seed: int = 0,
    feature_dtype: torch.dtype = torch.float32,
    shift: float = 0.0,
    outputs: Collection[str] = (),
) -> SyntheticLayers:
    """Fresh tensors for the same arguments, the same numbers.

    ``feature_dtype`` rounds the stored features (and so the offset norms) as a cache would; logits stay as they are.
    ``shift`` adds a constant vector of that size to all class rows of W, and that constant to b: no softmax notices.
    ``outputs`` names extra outputs: trained exit scores in (0, 1), larger where the answer is more often right.
    """
    labels, features, weights, biases = _numbers(samples, depth, classes, width, seed)
    direction = np.ones(width) / np.sqrt(width)
    layers = []
    for index in range(1, depth + 1):
        head = head_algebra(
            torch.from_numpy(weights[index - 1] + shift * direction), torch.from_numpy(biases[index - 1] + shift)
        )
        exact = torch.from_numpy(features[index - 1]).float()
        stored = exact.to(feature_dtype)
        layers.append(
            Layer(
                index=index,
                depth=depth,
                classes=classes,
                ids=torch.arange(samples) * 7 + 3,
                logits=(exact.double() @ head.weight.T + head.bias).float(),
                features=stored.clone(),
                offset_norm=(stored.double() + head.offset).norm(dim=1).float(),
                head=head,
                outputs={name: exit_score(labels, features[index - 1], head, seed=seed) for name in outputs},
            )
        )
    return SyntheticLayers(tuple(layers), torch.from_numpy(labels.copy()))


def exit_score(labels: NDArray[np.int64], features: Array, head: Head, *, seed: int) -> Tensor:
    """What an exit that was trained to say how sure it is may say, [samples] float32: the label's lead, with noise."""
    logits = features @ head.weight.numpy().T + head.bias.numpy()
    rows = np.arange(len(labels))
    others = logits.copy()
    others[rows, labels] = -np.inf
    lead = logits[rows, labels] - others.max(axis=1) + np.random.default_rng(seed + 1).normal(size=len(labels))
    return torch.from_numpy(1.0 / (1.0 + np.exp(-lead))).float()


@lru_cache(maxsize=32)
def _numbers(
    samples: int, depth: int, classes: int, width: int, seed: int
) -> tuple[NDArray[np.int64], Array, Array, Array]:
    """Labels [samples], features [layers, samples, width], then each layer's weight and bias, stacked."""
    draw = np.random.default_rng(seed)
    labels = draw.integers(0, classes, samples)
    difficulty = draw.uniform(0.0, 1.0, samples)
    lasting_noise = draw.normal(size=(samples, classes))
    weights = draw.normal(size=(depth, classes, width)) / np.sqrt(width)
    biases = 0.1 * draw.normal(size=(depth, classes))
    features = np.empty((depth, samples, width))
    for layer in range(depth):
        strength = (1.0 - difficulty) * (3.0 + 4.0 * layer / depth)
        noise = np.sqrt(0.6) * lasting_noise + np.sqrt(0.4) * draw.normal(size=lasting_noise.shape)
        target = strength[:, None] * np.eye(classes)[labels] + 1.2 * noise
        inverse = np.linalg.pinv(weights[layer])
        free = draw.normal(size=(samples, width))
        free -= free @ (inverse @ weights[layer]).T
        free *= (0.5 + 2.0 * difficulty[:, None]) * np.sqrt(width) / np.linalg.norm(free, axis=1, keepdims=True)
        features[layer] = (target - biases[layer]) @ inverse.T + free
    return labels, features, weights, biases


def without(layer: Layer, undeclared: Set[Input]) -> Layer:
    """The layer with the inputs named taken away: hidden where they may be absent, made nonsense where not."""
    view = layer.only({*INPUTS, *(OUTPUT + name for name in layer.outputs)} - undeclared)
    if "logits" in undeclared:
        view = dataclasses.replace(view, logits=torch.full_like(layer.logits, torch.nan))
    if "ids" in undeclared:
        view = dataclasses.replace(view, ids=-1 - layer.ids)
    return view
