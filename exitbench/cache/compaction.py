"""A compact copy of a cache: without the features, with everything that the eight signals read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

from exitbench.atomic_files import whole_folder, write_text, write_whole
from exitbench.cache.format.files import CHUNK, changed, child, refuse_changed
from exitbench.cache.format.manifest import MANIFEST, ShardEntry
from exitbench.cache.format.safetensors_file import encode
from exitbench.cache.format.stored_shard import Shard
from exitbench.cache.reader import Cache
from exitbench.errors import InputError


def compact(source: Path, target: Path) -> None:
    """Copy the cache at ``source`` to ``target`` without its features.

    Offset norms are computed first where they are not stored; all other bytes stay as they are, and must be those that
    the manifest lists. The copy is made beside ``target`` and takes its name when it is whole; an error, Ctrl-C or a
    full disk leaves nothing, and what a kill leaves (``.target.partial``) the next call removes.
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
        _copy_file(cache.path, folder, cache.manifest.heads.file, cache.manifest.heads.sha256)
    entries = tuple(_compact_shard(cache, shard, folder) for shard in cache.shards)
    manifest = replace(cache.manifest, shards=entries, feature_dtype=None)
    write_text(folder / MANIFEST, manifest.to_json())


def _copy_file(source: Path, target: Path, name: str, expected: str) -> None:
    """Copy a file whose bytes have the sha256 that the manifest lists; else the copy would look good."""
    digest = write_whole(target / name, _blocks(child(source, name)))
    if digest != expected:
        raise changed(child(source, name), expected, digest)


def _blocks(path: Path) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as stream:
        while block := stream.read(CHUNK):
            yield block


def _compact_shard(cache: Cache, shard: Shard, folder: Path) -> ShardEntry:
    if shard.stored_norms is not None or not cache.has_offset_norms:
        _copy_file(cache.path, folder, shard.entry.file, shard.entry.sha256)
        return replace(shard.entry, features=None)
    assert shard.entry.features is not None
    for entry in (shard.entry, shard.entry.features):
        refuse_changed(child(cache.path, entry.file), entry.sha256)
    rows = slice(shard.start, shard.stop)
    norms = torch.stack([cache.offset_norms(layer, rows) for layer in range(1, cache.layers + 1)])
    tensors: dict[str, Tensor] = {}
    for name, tensor in shard.file.tensors.items():
        tensors[name] = tensor.block()
        if name == "logits":  # where the writer has them
            tensors["offset_norm"] = norms
    digest = write_whole(folder / shard.entry.file, encode(tensors))
    return replace(shard.entry, sha256=digest, features=None)
