"""Caches of several trainings (seeds) of one network on the same rows, made of arrays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from exitbench import CacheWriter
from exitbench.cache import Model, Task


def seeds_of(
    folder: Path,
    count: int,
    *,
    rows: int = 150,
    group_rows: int | None = None,
    task: str = "t",
    model: str = "m",
    rows_seed: int = 7,
    first_seed: int = 100,
) -> list[Path]:
    """Caches on the same ids and labels, whose logits are another network's each time.

    ``rows_seed`` draws the rows, ``first_seed`` and those after it the networks.
    """
    rng = np.random.default_rng(rows_seed)
    labels = rng.integers(0, 3, rows)
    easy = rng.normal(1.0, 1.0, rows)  # what all networks share about a row
    paths = []
    for seed in range(count):
        own = np.random.default_rng(first_seed + seed)
        logits = own.normal(size=(3, rows, 3)) + own.normal(0, 0.2)
        for layer in range(3):
            logits[layer, np.arange(rows), labels] += (0.5 + layer) * easy
        path = folder / f"{model}-{task}-s{seed}-dev"
        with CacheWriter(
            path,
            task=Task(task, ("a", "b", "c"), "accuracy"),
            split="dev",
            model=Model(model, None, 3, 4, "none", "none"),
            feature_dtype=None,
            provenance={"seed": seed},
            groups=group_rows is not None,
        ) as writer:
            for _ in writer.pending(rows):
                writer.add(
                    labels=torch.from_numpy(labels),
                    logits=torch.from_numpy(logits.astype(np.float32)),
                    ids=torch.arange(rows),
                    groups=None if group_rows is None else torch.arange(rows) // group_rows,
                )
        paths.append(path)
    return paths
