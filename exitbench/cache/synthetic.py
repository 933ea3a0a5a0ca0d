"""Seeded synthetic caches of any size: layers that get better with depth, heads that fit the features.

A sample has a class and a difficulty that it keeps through all layers. In the space of the classes
its feature is the class direction, stronger layer by layer, plus noise that partly persists; outside
that space it carries more the harder it is, so that null-space scores have something to find.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from exitbench.cache.format.manifest import FeatureDtype, Metric, Model, Output, SplitRole, Task
from exitbench.cache.writer import CacheWriter

PERSISTENT = 0.7
"""Share of the class-space noise that a sample keeps from layer to layer."""

SHALLOW, DEEP = 0.6, 2.6
"""Strength of the class direction at the first and at the last layer, in units of the noise."""

BLOCK_ROWS = 4096


def synthetic_cache(
    path: str | Path,
    *,
    rows: int = 500,
    layers: int = 12,
    classes: int = 2,
    width: int = 32,
    seed: int = 0,
    feature_dtype: FeatureDtype = "float16",
    compact: bool = False,
    shard_rows: int = 4096,
    metric: Metric = "accuracy",
    task: str = "synthetic",
    split: str = "dev",
    model: str = "synthetic",
    heads: bool = True,
    widths: Sequence[int] | None = None,
    costs: Sequence[float] | None = None,
    outputs: Sequence[str] = (),
    group_rows: int | None = None,
    labelled: bool = True,
    role: SplitRole = "test",
) -> Path:
    """Write a synthetic cache at ``path`` and return it; rows are made block by block, never all at once.

    ``widths`` are those of the exits where they differ; each of the ``outputs`` says how sure an exit is, in (0, 1);
    ``group_rows`` neighbouring rows make a group.
    """
    names = tuple(f"class {k}" for k in range(classes))
    directions, weight, bias = _heads(layers, classes, max(widths or [width]), seed)
    cut = [weight[m, :, :own] for m, own in enumerate(widths or [])]
    with CacheWriter(
        path,
        task=Task(task, names, metric),
        split=split,
        model=Model(model, None, layers, None if widths else width, "none", "none"),
        heads=(cut or weight, bias) if heads else None,
        feature_dtype=None if compact else feature_dtype,
        shard_rows=shard_rows,
        provenance={"started": "2000-01-01T00:00:00+00:00", "seed": seed, "note": "synthetic"},
        costs=costs,
        widths=widths,
        outputs=[Output(name, description="how sure the exit is") for name in outputs],
        groups=group_rows is not None,
        labelled=labelled,
        role=role,
    ) as writer:
        for shard in writer.pending(rows):
            for start in range(shard.start, shard.stop, BLOCK_ROWS):
                count = min(BLOCK_ROWS, shard.stop - start)
                labels, features = _samples(directions, start, count, classes, seed)
                if cut:  # what a narrow exit does not see is not there
                    for m, own in enumerate(widths or []):
                        features[m, :, own:] = 0
                logits = torch.einsum("mnw,mcw->mnc", features, weight) + bias[:, None]
                writer.add(
                    labels=labels if labelled else None,
                    logits=logits,
                    features=[features[m, :, : len(head.T)] for m, head in enumerate(cut)] if cut else features,
                    groups=None if group_rows is None else torch.arange(start, start + count) // group_rows,
                    outputs={name: torch.softmax(logits, dim=2).amax(dim=2) for name in outputs},
                )
    return Path(path)


def _generator(seed: int, stream: int) -> torch.Generator:
    return torch.Generator().manual_seed((seed * 1_000_003 + stream) % 2**63)


def _heads(layers: int, classes: int, width: int, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """Class directions [layers, width, classes] with heads roughly along them."""
    generator = _generator(seed, 1)
    random = torch.randn((layers, width, max(classes, 1)), generator=generator)
    directions = torch.linalg.qr(random)[0] if width >= classes else random / math.sqrt(width)
    gain = torch.linspace(1.0, 2.0, layers)[:, None, None]
    tilt = 0.02 * torch.randn((layers, classes, width), generator=generator)
    weight = gain * directions.transpose(1, 2) + tilt
    return directions, weight, 0.1 * torch.randn((layers, classes), generator=generator)


def _samples(directions: Tensor, start: int, count: int, classes: int, seed: int) -> tuple[Tensor, Tensor]:
    """Labels [count] and features [layers, count, width] of the block that begins at row ``start``."""
    generator = _generator(seed, 1_000 + start)
    layers, width, _ = directions.shape
    labels = torch.randint(classes, (count,), generator=generator)
    difficulty = torch.rand((count, 1), generator=generator)
    persistent = torch.randn((count, classes), generator=generator)
    features = torch.empty((layers, count, width))
    for m in range(layers):
        strength = SHALLOW + (DEEP - SHALLOW) * m / max(1, layers - 1)
        fresh = torch.randn((count, classes), generator=generator)
        noise = math.sqrt(PERSISTENT) * persistent + math.sqrt(1 - PERSISTENT) * fresh
        target = torch.nn.functional.one_hot(labels, classes) * strength * (1.5 - difficulty)
        inside = target + (0.3 + 0.7 * difficulty) * noise
        outside = (0.5 + difficulty) * torch.randn((count, width), generator=generator)
        outside = outside - (outside @ directions[m]) @ directions[m].T
        features[m] = inside @ directions[m].T + outside
    return labels, features
