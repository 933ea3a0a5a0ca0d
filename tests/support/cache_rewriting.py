"""A compact cache written again with other labels, or with its rows in another order."""

from pathlib import Path

import numpy as np
import torch

from exitbench.cache import Cache, CacheWriter


def rewritten(source: Path, out: Path, labels: np.ndarray, order: np.ndarray) -> Path:
    cache = Cache(source)
    manifest = cache.manifest
    with CacheWriter(
        out,
        task=manifest.task,
        split=manifest.split,
        model=manifest.model,
        heads=cache.head_tensors(),
        feature_dtype=None,
        shard_rows=cache.rows,
        provenance={"started": "2000-01-01T00:00:00+00:00"},
    ) as writer:
        logits = torch.stack([cache.logits(layer) for layer in range(1, cache.layers + 1)])
        norms = torch.stack([cache.offset_norms(layer) for layer in range(1, cache.layers + 1)])
        writer.add(labels=labels[order], logits=logits[:, order], offset_norm=norms[:, order], ids=cache.ids[order])
    return out


def with_labels(source: Path, out: Path, labels: np.ndarray) -> Path:
    return rewritten(source, out, labels, np.arange(len(labels)))


def shuffled(source: Path, out: Path) -> Path:
    cache = Cache(source)
    return rewritten(source, out, cache.labels, np.random.default_rng(0).permutation(cache.rows))
