"""Seeded synthetic caches of any size: what :mod:`exitbench.synthetic_network` makes, written block by block."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import torch

from exitbench.cache.format.manifest import FeatureDtype, Metric, Model, Output, SplitRole, Task
from exitbench.cache.writer import CacheWriter
from exitbench.synthetic_network import synthetic_network

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
    network = synthetic_network(layers, classes, max(widths or [width]), seed)
    weight, bias = network.weight, network.bias
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
                labels, features = network.samples(start, count)
                if cut:  # what a narrow exit does not see is not there
                    for m, own in enumerate(widths or []):
                        features[m, :, own:] = 0
                logits = torch.einsum("mnw,mcw->mnc", features, weight) + bias[:, None]
                writer.add(
                    ids=torch.arange(start, start + count),
                    labels=labels if labelled else None,
                    logits=logits,
                    features=[features[m, :, : len(head.T)] for m, head in enumerate(cut)] if cut else features,
                    groups=None if group_rows is None else torch.arange(start, start + count) // group_rows,
                    outputs={name: torch.softmax(logits, dim=2).amax(dim=2) for name in outputs},
                )
    return Path(path)
