"""The layers of a synthetic network in memory, for the conformance checks.

What :mod:`exitbench.synthetic_network` makes is handed out as layers: every sensible signal has something to see, at
every number of classes, and heads, features, offset norms and logits fit together as they do in a real cache.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Tensor

from exitbench.head_algebra import Head, head_algebra
from exitbench.signals.contract.layer import INPUTS, OUTPUT, Input, Layer
from exitbench.synthetic_network import seeded_generator, synthetic_network

STRENGTHS = (1.0, 4.0)
"""Strength of the class direction at the first and at the last layer: an easy task, in which certainty means much."""


class Recipe(NamedTuple):
    """The arguments of :func:`synthetic_layers`."""

    samples: int
    depth: int
    classes: int
    width: int
    seed: int
    feature_dtype: torch.dtype
    shift: float
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class SyntheticLayers:
    """All layers of some samples, in order, with their labels [samples]; ``recipe`` is what they were made from."""

    layers: tuple[Layer, ...]
    labels: Tensor
    recipe: Recipe

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
    return made_from(Recipe(samples, depth, classes, width, seed, feature_dtype, shift, tuple(outputs)))


def made_from(recipe: Recipe) -> SyntheticLayers:
    """The layers of a recipe, in tensors that nobody else has."""
    layers, labels = _made(recipe)
    return SyntheticLayers(tuple(map(_copy, layers)), labels.clone(), recipe)


def _copy(layer: Layer) -> Layer:
    assert layer.features is not None
    assert layer.offset_norm is not None
    assert layer.head is not None
    head = layer.head
    return dataclasses.replace(
        layer,
        ids=layer.ids.clone(),
        logits=layer.logits.clone(),
        features=layer.features.clone(),
        offset_norm=layer.offset_norm.clone(),
        head=Head(head.weight.clone(), head.bias.clone(), head.gram_inverse.clone(), head.offset.clone(), head.rank),
        outputs={name: output.clone() for name, output in layer.outputs.items()},
    )


@lru_cache(maxsize=32)
def _made(recipe: Recipe) -> tuple[tuple[Layer, ...], Tensor]:
    """Layers and labels of a recipe: made once, and handed out as copies only."""
    network = synthetic_network(recipe.depth, recipe.classes, recipe.width, recipe.seed, strengths=STRENGTHS)
    labels, features = network.samples(0, recipe.samples)
    constant = recipe.shift * torch.ones(recipe.width, dtype=torch.float64) / math.sqrt(recipe.width)
    layers = []
    for index in range(1, recipe.depth + 1):
        weight, bias = network.weight[index - 1].double(), network.bias[index - 1].double()
        head = head_algebra(weight + constant, bias + recipe.shift)
        exact = features[index - 1]
        stored = exact.to(recipe.feature_dtype)
        layers.append(
            Layer(
                index=index,
                depth=recipe.depth,
                classes=recipe.classes,
                ids=torch.arange(recipe.samples) * 7 + 3,
                logits=(exact.double() @ head.weight.T + head.bias).float(),
                features=stored,
                offset_norm=(stored.double() + head.offset).norm(dim=1).float(),
                head=head,
                outputs={name: exit_score(labels, exact, head, seed=recipe.seed) for name in recipe.outputs},
            )
        )
    return tuple(layers), labels


def exit_score(labels: Tensor, features: Tensor, head: Head, *, seed: int) -> Tensor:
    """What an exit that was trained to say how sure it is may say, [samples] float32: the label's lead, with noise."""
    logits = features.double() @ head.weight.T + head.bias
    own = torch.nn.functional.one_hot(labels, logits.shape[1]).bool()
    lead = logits[own] - logits.masked_fill(own, -torch.inf).amax(dim=1)
    return torch.sigmoid(lead + torch.randn(len(labels), generator=seeded_generator(seed, 2)).double()).float()


def without_inputs(layer: Layer, undeclared: Set[Input]) -> Layer:
    """The layer with the inputs named taken away: hidden where they may be absent, made nonsense where not."""
    view = layer.only({*INPUTS, *(OUTPUT + name for name in layer.outputs)} - undeclared)
    if "logits" in undeclared:
        view = dataclasses.replace(view, logits=torch.full_like(layer.logits, torch.nan))
    if "ids" in undeclared:
        view = dataclasses.replace(view, ids=-1 - layer.ids)
    return view
