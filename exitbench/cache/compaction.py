"""A compact copy of a cache: the features go, everything that the eight signals read stays."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from exitbench import atomic_files
from exitbench.atomic_files import make_directory, reason, write_whole
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
    building = target.with_name(f".{target.name}.partial")
    try:
        if building.exists():
            shutil.rmtree(building)
        make_directory(building)
        _copy(cache, building)
        if target.exists():
            target.rmdir()
        atomic_files.disk.rename(building, target)
        atomic_files.disk.flush_directory(target.parent if os.fspath(target.parent) else Path())
    except OSError as error:
        shutil.rmtree(building, ignore_errors=True)
        raise InputError(f"{target}: cannot be written: {reason(error)}") from error
    except Exception:
        shutil.rmtree(building, ignore_errors=True)
        raise


def _copy(cache: Cache, building: Path) -> None:
    if cache.manifest.heads:
        _copy_file(cache.path, building, cache.manifest.heads.file)
    entries = tuple(_compact_shard(cache, shard, building) for shard in cache.shards)
    manifest = replace(cache.manifest, shards=entries, feature_dtype=None)
    write_whole(building / MANIFEST, [manifest.to_json().encode()])


def _copy_file(source: Path, target: Path, name: str) -> str:
    return write_whole(target / name, _blocks(child(source, name)))


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(CHUNK):
            yield block


def _compact_shard(cache: Cache, shard: Shard, building: Path) -> ShardEntry:
    if shard.stored_norms is not None or not cache.has_offset_norms:
        digest = _copy_file(cache.path, building, shard.entry.file)
        return replace(shard.entry, sha256=digest, features=None)
    rows = slice(shard.start, shard.stop)
    tensors = {
        "labels": shard.stored_labels.block(),
        "ids": shard.stored_ids.block(),
        "logits": shard.stored_logits.block(),
        "offset_norm": torch.stack([cache.offset_norms(layer, rows) for layer in range(1, cache.layers + 1)]),
    }
    digest = write_whole(building / shard.entry.file, encode(tensors))
    return replace(shard.entry, sha256=digest, features=None)
