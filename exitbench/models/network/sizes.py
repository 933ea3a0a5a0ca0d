"""The sizes of a real network, read off its configuration and counted in its weights."""

from __future__ import annotations

from torch import nn

from exitbench.models.network.multi_exit import MultiExitModel


def network_sizes(model: MultiExitModel) -> dict[str, int]:
    """What the cost of a network depends on, under the names the library's families use or their nearest kin."""
    settings = model.backbone.config
    inner = getattr(settings, "intermediate_size", None) or settings.hidden_dim
    return {
        "layers": model.depth,
        "width": model.width,
        "intermediate": int(inner),
        "vocabulary": int(settings.vocab_size),
        "positions": int(settings.max_position_embeddings),
        "token_types": int(getattr(settings, "type_vocab_size", 0)),
    }


def parameter_counts(model: MultiExitModel) -> dict[str, int]:
    """Parameters of the encoder, of all heads and poolers, of what a recipe added, and what exits add to one answer."""

    def size(module: nn.Module) -> int:
        return sum(parameter.numel() for parameter in module.parameters())

    heads, poolers = size(model.heads), size(model.poolers)
    # The plain network has one head, and one pooler where there are poolers at all.
    head = size(model.heads[-1]) if len(model.heads) else (model.width + 1) * len(model.config.classes)
    plain = head + (size(model.poolers[-1]) if len(model.poolers) else 0)
    counts = {"encoder": size(model.backbone), "heads": heads, "poolers": poolers}
    added = {"added": size(model.added)} if model.config.addition else {}
    return {**counts, **added, "extra": heads + poolers + size(model.added) - plain}
