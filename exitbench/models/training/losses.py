"""What is trained: one loss over the exits, or a sequence of stages.

Three published recipes: the plain sum over all exits, the depth-weighted mean of PABEE, and the two stages
of DeeBERT (the final head with the backbone first, then the internal heads on the frozen backbone).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor, nn
from torch.nn import functional

from exitbench.errors import InputError, did_you_mean
from exitbench.models.network.multi_exit import MultiExitModel

Loss = Literal["sum", "depth-weighted", "two-stage"]


@dataclass(frozen=True)
class Stage:
    """One part of training: a weight for every layer's cross entropy, and whether the backbone learns."""

    name: str
    weights: tuple[float, ...]
    backbone: bool = True


def stages(loss: str, depth: int) -> tuple[Stage, ...]:
    """The stages of a loss by its name, for a network of ``depth`` layers.

    >>> stages("depth-weighted", 3)[0].weights
    (0.16666666666666666, 0.3333333333333333, 0.5)
    """
    if loss == "sum":
        return (Stage("all exits", (1.0,) * depth),)
    if loss == "depth-weighted":
        total = depth * (depth + 1) / 2
        return (Stage("all exits", tuple(m / total for m in range(1, depth + 1))),)
    if loss == "two-stage":
        internal = (1.0,) * (depth - 1)
        return (
            Stage("final exit", (*(0.0,) * (depth - 1), 1.0)),
            Stage("internal exits", (*internal, 0.0), backbone=False),
        )
    losses = get_args(Loss)
    raise InputError(f"expected --loss {', '.join(losses)}, found {loss!r}.{did_you_mean(loss, losses)}")


def exit_loss(logits: Tensor, labels: Tensor, weights: tuple[float, ...]) -> Tensor:
    """The weighted sum over layers of the mean cross entropy; logits [layers, samples, classes], labels [samples]."""
    layers = [m for m, weight in enumerate(weights) if weight]
    losses = [weights[m] * functional.cross_entropy(logits[m], labels) for m in layers]
    return torch.stack(losses).sum()


def open_for_training(model: MultiExitModel, stage: Stage, freeze_embeddings: bool) -> dict[str, nn.Parameter]:
    """Let exactly the stage's weights learn, and return them by name.

    A layer without weight in the loss keeps its head; a pooler learns with the heads it serves, but a
    shared one stays as it is once the backbone is frozen, because the final exit depends on it.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if stage.backbone:
        model.backbone.requires_grad_(True)
        if freeze_embeddings:
            model.backbone.embeddings.requires_grad_(False)
    per_layer = len(model.poolers) == model.depth and model.config.pooler == "per-layer"
    for m, weight in enumerate(stage.weights):
        if weight:
            model.heads[m].requires_grad_(True)
            if per_layer:
                model.poolers[m].requires_grad_(True)
    if model.config.pooler == "shared" and stage.backbone:
        model.poolers.requires_grad_(True)
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
