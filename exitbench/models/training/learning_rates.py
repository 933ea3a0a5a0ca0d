"""How to train: the options, and the learning rate they give each parameter at each step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn


@dataclass(frozen=True)
class TrainingOptions:
    """How to train; everything here must be the same when a training is resumed."""

    epochs: int = 3
    batch_size: int = 32
    learning_rate: float = 3e-5
    head_learning_rate: float = 5e-4
    weight_decay: float = 0.01
    warm_up: float = 0.1
    clip: float = 1.0
    freeze_embeddings: bool = False
    gradient_equilibrium: bool = False
    seed: int = 0
    precision: str = "auto"


def parameter_groups(trained: Mapping[str, nn.Parameter], options: TrainingOptions) -> list[dict[str, Any]]:
    """An optimiser's groups: backbone and exits at their own learning rates; no decay for biases and norms."""
    groups = []
    for base, backbone in ((options.learning_rate, True), (options.head_learning_rate, False)):
        for decay, vectors in ((options.weight_decay, False), (0.0, True)):
            members = [
                parameter
                for name, parameter in trained.items()
                if name.startswith("backbone.") == backbone and (parameter.ndim < 2) == vectors
            ]
            if members:
                groups.append({"params": members, "weight_decay": decay, "base_rate": base})
    return groups


def rate_factor(step: int, total: int, warm_up: float) -> float:
    """The share of the full learning rate at a step: up in a line over the warm-up, then down to zero.

    >>> [round(rate_factor(step, 10, 0.2), 3) for step in range(10)]
    [0.5, 1.0, 1.0, 0.875, 0.75, 0.625, 0.5, 0.375, 0.25, 0.125]
    """
    warm = round(total * warm_up)
    if step < warm:
        return (step + 1) / warm
    return (total - step) / (total - warm)
