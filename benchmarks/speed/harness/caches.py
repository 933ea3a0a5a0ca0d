"""Large synthetic caches for the benchmarks: the size of QQP's development set, and one of six gigabytes."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from exitbench.atomic_files import write_whole
from exitbench.cache import Cache, synthetic_cache
from exitbench.cache.format.manifest import MANIFEST, FileEntry, ShardEntry
from exitbench.cache.format.safetensors_file import encode

ROWS, LAYERS, WIDTH, CLASSES = 40_430, 12, 768, 2
"""QQP's development set through BERT-base: 745 MB of float16 features."""

JITTER = 5e-5
"""Added to repeated logits: enough that hardly two scores are equal, too little for ``verify`` to object."""


def qqp_sized(path: Path, rows: int = ROWS, classes: int = CLASSES) -> Path:
    """A cache with features and stored offset norms."""
    return synthetic_cache(path, rows=rows, layers=LAYERS, width=WIDTH, classes=classes, shard_rows=4096)


def without_norms(source: Path, target: Path) -> Path:
    """The same cache without stored offset norms, as another program may write it; feature files are hard links."""
    cache = Cache(source)
    target.mkdir(parents=True)
    shards = []
    for shard in cache.shards:
        assert shard.entry.features is not None
        os.link(source / shard.entry.features.file, target / shard.entry.features.file)
        tensors = {name: stored.block() for name, stored in shard.file.tensors.items() if name != "offset_norm"}
        shards.append(replace(shard.entry, sha256=write_whole(target / shard.entry.file, encode(tensors))))
    _finish(cache, target, shards)
    return target


def repeated(source: Path, target: Path, times: int) -> Path:
    """A cache that holds the first shard of ``source`` so many times, under new ids and with slightly other logits.

    The feature files are hard links to one file, so that six gigabytes need no disk. A mapping of each counts as
    memory of its own all the same: what a process maps twice, it has twice in its resident size.
    """
    cache = Cache(source)
    first = cache.shards[0]
    assert first.entry.features is not None and first.stored_norms is not None
    target.mkdir(parents=True)
    generator = torch.Generator().manual_seed(0)
    shards = []
    for number in range(times):
        features = FileEntry(f"shard-{number:05d}.features.safetensors", first.entry.features.sha256)
        os.link(source / first.entry.features.file, target / features.file)
        logits = first.stored_logits.block()
        tensors: dict[str, Tensor] = {
            "labels": first.file.tensor("labels").block(),
            "ids": torch.arange(number * first.rows, (number + 1) * first.rows),
            "logits": logits + JITTER * (2 * torch.rand(logits.shape, generator=generator) - 1),
            "offset_norm": first.stored_norms.block(),
        }
        name = f"shard-{number:05d}.safetensors"
        shards.append(ShardEntry(first.rows, name, write_whole(target / name, encode(tensors)), features))
    _finish(cache, target, shards)
    return target


def _finish(cache: Cache, target: Path, shards: list[ShardEntry]) -> None:
    assert cache.manifest.heads is not None
    os.link(cache.path / cache.manifest.heads.file, target / cache.manifest.heads.file)
    manifest = cache.manifest.with_shards(tuple(shards), complete=True)
    write_whole(target / MANIFEST, [manifest.to_json().encode()])


def cache_size(path: Path) -> int:
    """The size of all files of a cache, links counted as files."""
    return sum(file.stat().st_size for file in path.iterdir())


def feature_bytes(path: Path) -> int:
    """The size of all feature files, links counted as files."""
    return sum(file.stat().st_size for file in path.glob("*.features.safetensors"))
