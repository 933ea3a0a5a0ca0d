"""A network in pieces that other runtimes can take: `torch.export` of the embeddings and of every layer with its exit.

One program cannot hold an exit, because where it ends depends on the data and a traced graph does not branch on that.
So the network is cut at its exits: whoever runs the pieces asks the signal after each and stops, as exitbench does.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.export import Dim, ExportedProgram, export, save

from exitbench.errors import InputError, one_line
from exitbench.models.network.folders import draft_folder
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.models.timing import random_batch

LARGEST_BATCH = 4096


class Segment(nn.Module):
    """A piece of a network: a function of tensors, and of all modules only those it uses."""

    def __init__(
        self, run: Callable[..., Any], model: nn.Module, inputs: tuple[Tensor, ...], head: nn.Module | None
    ) -> None:
        super().__init__()
        self.run = run
        self.used = nn.ModuleList(modules_used(run, model, inputs, head))

    def forward(self, *inputs: Tensor) -> Any:
        return self.run(*inputs)


def modules_used(
    run: Callable[..., Any], model: nn.Module, inputs: tuple[Tensor, ...], head: nn.Module | None
) -> list[nn.Module]:
    """The modules with weights of their own that a call runs, each once; ``head``, whose weights are read, first."""
    used: dict[nn.Module, None] = {} if head is None else {head: None}
    hooks = [
        module.register_forward_pre_hook(lambda module, _: used.setdefault(module))
        for module in model.modules()
        if next(module.parameters(recurse=False), None) is not None
    ]
    try:
        run(*inputs)
    finally:
        for hook in hooks:
            hook.remove()
    return list(used)


@torch.no_grad()
def exported_segments(model: MultiExitModel) -> dict[str, ExportedProgram]:
    """The pieces by name, for any number of samples and tokens.

    ``embed`` takes token ids, attention mask and token types, each [samples, tokens], and gives hidden states.
    ``layer-1``, ``layer-2`` and so on take hidden states and mask and give (hidden states, features [samples, width],
    logits [samples, classes]). Raises InputError for a family whose layers cannot be traced.
    """
    if model.config.addition:
        raise InputError(f"expected a network of linear heads alone to export, found one with {model.config.addition}")
    model = model.eval()
    samples, tokens = (
        Dim("samples", min=1, max=LARGEST_BATCH),
        Dim("tokens", min=2, max=max(model.config.max_length, 3)),
    )
    sizes = {0: samples, 1: tokens}
    batch = random_batch(model, 3, min(5, model.config.max_length))

    types = torch.zeros_like(batch.input_ids)

    def embed(ids: Tensor, padding: Tensor, token_types: Tensor) -> Tensor:
        return model.family.embeddings(ids, padding, token_types)

    def layer(m: int) -> Callable[..., Any]:
        def run(hidden: Tensor, padding: Tensor) -> tuple[Tensor, Tensor, Tensor]:
            context = model.family.context(hidden, padding)
            hidden = model.advance(m, hidden, context)
            features = model.pool(m, hidden, context)
            return hidden, features, model.logits(m, features)

        return run

    inputs = (batch.input_ids, batch.attention_mask, types)
    segments = {"embed": traced("embed", embed, model, inputs, sizes)}
    hidden = embed(*inputs)
    for m in range(1, model.depth + 1):
        inner = (hidden, batch.attention_mask)
        segments[f"layer-{m}"] = traced(f"layer-{m}", layer(m), model, inner, sizes, model.head(m))
    return segments


def traced(
    name: str,
    run: Callable[..., Any],
    model: MultiExitModel,
    inputs: tuple[Tensor, ...],
    sizes: dict[int, Any],
    head: nn.Module | None = None,
) -> ExportedProgram:
    """One piece, whose inputs all have samples and tokens in front."""
    try:
        return export(Segment(run, model, inputs, head), inputs, dynamic_shapes=[(sizes,) * len(inputs)])
    except Exception as error:  # torch raises whatever its tracing met
        family = model.backbone.config.model_type
        raise InputError(
            f"expected layers that torch.export can trace, found {family}: {name}: {one_line(error)}"
        ) from error


def export_segments(model: MultiExitModel, folder: str | Path) -> list[Path]:
    """Write the pieces as ``embed.pt2``, ``layer-1.pt2`` and so on, and ``segments.json`` with what a runner must know.

    The folder appears whole or not at all. torch reads ``.pt2`` files with pickle: load only your own.
    """
    segments = exported_segments(model)
    record = {
        "layers": model.depth,
        "width": model.width,
        "classes": list(model.config.classes),
        "max_length": model.config.max_length,
        "weights": model.fingerprint(),
        "torch": torch.__version__,
        "segments": list(segments),
    }
    target = Path(folder)
    with draft_folder(target) as draft:
        for name, program in segments.items():
            save(program, draft / f"{name}.pt2")
        (draft / "segments.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")
    return [target / f"{name}.pt2" for name in segments]
