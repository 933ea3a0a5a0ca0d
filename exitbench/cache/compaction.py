"""A compact copy of a cache: without the features, with everything that the eight signals read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from exitbench.atomic_files import whole_folder, write_text, write_whole
from exitbench.cache.format.files import CHUNK, child
from exitbench.cache.format.manifest import MANIFEST, ShardEntry
from exitbench.cache.format.safetensors_file import encode
from exitbench.cache.reader import Cache, Shard
from exitbench.errors import InputError


def compact(source: Path, target: Path) -> None:
    """Copy the cache at ``source`` to ``target`` without its features.

    Offset norms are computed first where they are not stored; all other bytes stay as they are. The
    copy is made beside ``target`` and takes its name when it is whole.
    """
    cache = Cache(source)
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: expected nothing or an empty directory, found other files")
    if target.resolve() == source.resolve():
        raise InputError(f"{target}: expected another directory than the source")
    with whole_folder(target) as folder:
        _copy(cache, folder)


def _copy(cache: Cache, folder: Path) -> None:
    if cache.manifest.heads:
        _copy_file(cache.path, folder, cache.manifest.heads.file)
    entries = tuple(_compact_shard(cache, shard, folder) for shard in cache.shards)
    manifest = replace(cache.manifest, shards=entries, feature_dtype=None)
    write_text(folder / MANIFEST, manifest.to_json())


def _copy_file(source: Path, target: Path, name: str) -> str:
    return write_whole(target / name, _blocks(child(source, name)))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(CHUNK):
            yield block


def _compact_shard(cache: Cache, shard: Shard, folder: Path) -> ShardEntry:
    if shard.stored_norms is not None or not cache.has_offset_norms:
        digest = _copy_file(cache.path, folder, shard.entry.file)
        return replace(shard.entry, sha256=digest, features=None)
    rows = slice(shard.start, shard.stop)
    tensors = {
        "labels": shard.stored_labels.block(),
        "ids": shard.stored_ids.block(),
        "logits": shard.stored_logits.block(),
        "offset_norm": torch.stack([cache.offset_norms(layer, rows) for layer in range(1, cache.layers + 1)]),
    }
    digest = write_whole(folder / shard.entry.file, encode(tensors))
    return replace(shard.entry, sha256=digest, features=None)
