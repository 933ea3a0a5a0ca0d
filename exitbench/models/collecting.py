"""Collecting: one pass of a multi-exit model over a split, every layer's answers into a cache.

Rows go into the cache in their own order, but through the network in batches of like length within a
shard. A batch depends on the rows of its shard alone, so one process or several, stopped or not, give
the same shards.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from exitbench.cache import CacheWriter, Model, Task, head_algebra
from exitbench.cache.format.arrays import FEATURE_DTYPES
from exitbench.cache.format.manifest import SPLIT_ROLES, Output, SplitRole
from exitbench.errors import InputError, did_you_mean
from exitbench.models.data.batches import Tokens, length_batches
from exitbench.models.devices import autocast_dtype, library_versions, processes
from exitbench.models.network.multi_exit import MultiExitModel
from exitbench.progress import ProgressBar

Features = Literal["float16", "bfloat16", "float32", "none"]


@dataclass(frozen=True)
class Outputs:
    """The outputs of all layers for some rows: logits [layers, n, classes], offset norms [layers, n] where logits are
    linear, features [layers, n, width] in their stored dtype where they are kept, and outputs of an addition by name.
    """

    rows: list[int]
    logits: Tensor
    offset_norm: Tensor | None
    features: Tensor | None
    named: dict[str, Tensor]


def collect(
    model: MultiExitModel,
    tokens: Tokens,
    task: Task,
    split: str,
    out: Path,
    *,
    features: str = "float16",
    batch_size: int = 64,
    shard_rows: int = 4096,
    device: str = "auto",
    precision: str = "auto",
    name: str | None = None,
    role: SplitRole = "test",
    provenance: dict[str, Any] | None = None,
    part: tuple[int, int] | None = None,
) -> None:
    """Run ``tokens`` through ``model`` and write the cache ``out``; a stopped collection goes on where it was.

    ``features="none"`` makes a compact cache: logits and offset norms, enough for all eight signals. Texts without
    labels make a cache that is judged by agreement with the last layer.
    Under ``accelerate launch`` every process takes its own shards. With ``part=(i, n)`` this is one of n collections
    of a job array, which one more without ``part`` joins.
    """
    if features not in get_args(Features):
        near = did_you_mean(features, get_args(Features))
        raise InputError(f"expected --features {', '.join(get_args(Features))}, found {features!r}.{near}")
    if role not in SPLIT_ROLES:
        raise InputError(f"expected --role {', '.join(SPLIT_ROLES)}, found {role!r}.{did_you_mean(role, SPLIT_ROLES)}")
    state = processes(device)
    dtype = autocast_dtype(precision, state.device)
    model.to(state.device).eval()
    metadata = {
        "device": state.device.type,
        "dtype": str(dtype or torch.float32).removeprefix("torch."),
        "versions": library_versions(),
        "batch_size": batch_size,
        "max_length": model.config.max_length,
        "texts_cut": tokens.cut,
        # What keeps a collection from being resumed with other data.
        "data_sha256": data_sha256(tokens),
        **model.made_by,
        **({"no_heads": model.added.not_linear} if model.added.not_linear else {}),
    }
    with (
        CacheWriter(
            out,
            task=task,
            split=split,
            model=Model(
                name or model.name,
                # Also what keeps a collection from being resumed with other weights.
                model.fingerprint(),
                model.depth,
                model.width,
                model.config.pooling,
                model.config.pooler,
            ),
            heads=model.head_arrays(),
            outputs=[
                Output(output, description=description, training=f"jointly, addition {model.config.addition}")
                for output, description in model.added.outputs.items()
            ],
            feature_dtype=None if features == "none" else features,  # type: ignore[arg-type]
            shard_rows=shard_rows,
            provenance={**metadata, **(provenance or {})},
            groups=tokens.groups is not None,
            labelled=tokens.labels is not None,
            role=role,
            rank=state.process_index,
            ranks=state.num_processes,
            barrier=state.wait_for_everyone,
            part=part,
        ) as writer,
        ProgressBar("collecting", len(tokens), done=writer.rows_done, visible=state.is_main_process) as bar,
    ):
        for rows in writer.pending(len(tokens)):
            shard = collect_rows(model, tokens, rows, batch_size, FEATURE_DTYPES.get(features), dtype, bar)
            labels, ids, groups = (
                None if numbers is None else numbers[rows.start : rows.stop]
                for numbers in (tokens.labels, tokens.sample_ids, tokens.groups)
            )
            writer.add(
                labels=labels,
                logits=shard.logits,
                features=shard.features,
                offset_norm=shard.offset_norm,
                outputs=shard.named,
                # A row's number in its split is the sample's name: every network collected from it has the same ids.
                ids=torch.arange(rows.start, rows.stop) if ids is None else ids,
                groups=groups,
            )


def data_sha256(tokens: Tokens) -> str:
    """The sha256 of the split as the network reads it: ids, token types and labels of every row, in order."""
    digest = hashlib.sha256()
    for sequences in (tokens.ids, tokens.types or ()):
        digest.update(np.array(len(sequences), dtype="<i8").tobytes())
        for row in sequences:
            # Lengths are part of it, or rows could trade tokens at their borders.
            digest.update(np.array([len(row), *row], dtype="<i8").tobytes())
    for numbers in (tokens.labels, tokens.sample_ids, tokens.groups):
        if numbers is not None:
            digest.update(numbers.numpy().astype("<i8").tobytes())
    return digest.hexdigest()


def collect_rows(
    model: MultiExitModel,
    tokens: Tokens,
    rows: range,
    batch_size: int,
    stored: torch.dtype | None,
    autocast: torch.dtype | None,
    bar: ProgressBar,
) -> Outputs:
    """The outputs of a range of rows, in their own order, on the CPU; ``stored`` None keeps no features."""
    M, n, C, N = model.depth, len(rows), len(model.config.classes), model.width
    logits = torch.empty(M, n, C)
    norms = torch.empty(M, n) if model.added.linear else None
    named = {name: torch.empty(M, n) for name in model.added.outputs}
    features = None if stored is None else torch.empty(M, n, N, dtype=stored)
    for outputs in _ahead(_forward(model, tokens, rows, batch_size, stored, autocast), model.device):
        positions = torch.tensor(outputs.rows) - rows.start
        logits[:, positions] = outputs.logits
        if norms is not None:
            assert outputs.offset_norm is not None
            norms[:, positions] = outputs.offset_norm
        for name, values in named.items():
            values[:, positions] = outputs.named[name]
        if features is not None:
            assert outputs.features is not None
            features[:, positions] = outputs.features
        bar.advance(len(outputs.rows))
    return Outputs(list(rows), logits, norms, features, named)


@torch.no_grad()
def _forward(
    model: MultiExitModel,
    tokens: Tokens,
    rows: range,
    batch_size: int,
    stored: torch.dtype | None,
    autocast: torch.dtype | None,
) -> Iterator[Outputs]:
    device = model.device
    on_gpu = device.type == "cuda"
    heads = model.head_arrays()
    shift = None
    if heads is not None:
        offsets = torch.stack([head_algebra(w, b).offset for w, b in zip(*heads, strict=True)])
        shift = offsets.to(device, torch.float32).unsqueeze(1)
    for batch_rows in length_batches(tokens.lengths, rows, batch_size):
        batch = tokens.batch(batch_rows)
        with torch.autocast(device.type, dtype=autocast, enabled=autocast is not None):
            features, logits, named = model((batch.pin() if on_gpu else batch).to(device))
        yield Outputs(
            batch_rows,
            _to_cpu(logits),
            None if shift is None else _to_cpu(torch.linalg.vector_norm(features + shift, dim=2)),
            None if stored is None else _to_cpu(features.to(stored)),
            {name: _to_cpu(values) for name, values in named.items()},
        )


def _to_cpu(tensor: Tensor) -> Tensor:
    """Copy a tensor to the CPU; a copy from a GPU is asynchronous and done when the event recorded after it is."""
    if tensor.device.type != "cuda":
        return tensor.cpu()
    target = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)  # pragma: no cover - needs a GPU
    return target.copy_(tensor, non_blocking=True)  # pragma: no cover


def _ahead(batches: Iterator[Outputs], device: torch.device) -> Iterator[Outputs]:
    """The same parts, each handed out after the next one was started, so that a GPU never waits for copies."""
    if device.type != "cuda":
        yield from batches
    else:  # pragma: no cover - needs a GPU
        waiting: tuple[Outputs, torch.Event] | None = None
        for outputs in batches:
            arrived = torch.Event(device)
            arrived.record()
            if waiting is not None:
                waiting[1].synchronize()
                yield waiting[0]
            waiting = outputs, arrived
        if waiting is not None:
            waiting[1].synchronize()
            yield waiting[0]
