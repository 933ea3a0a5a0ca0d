"""Which weights a stage lets learn."""

from __future__ import annotations

from torch import nn

from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.training.recipe import Stage


def open_for_training(model: MultiExitModel, stage: Stage, freeze_embeddings: bool) -> dict[str, nn.Parameter]:
    """Let exactly the stage's weights learn, and return them by name.

    An exit that does not learn keeps its head; a pooler learns with the heads it serves, but a shared one stays as it
    is once the backbone is frozen, because the final exit depends on it.
    """
    for parameter in model.parameters():
        parameter.requires_grad_(False)
    if stage.backbone:
        model.backbone.requires_grad_(True)
        if freeze_embeddings:
            model.backbone.embeddings.requires_grad_(False)
    model.added.requires_grad_(stage.added)
    for m in stage.exits:
        if len(model.heads) and not model.added.fixed_heads:
            model.head(m).requires_grad_(True)
        if model.config.pooler == "per-layer":
            model.poolers[m - 1].requires_grad_(True)
    if model.config.pooler == "shared" and stage.backbone:
        model.poolers.requires_grad_(True)
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
