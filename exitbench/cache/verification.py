"""Is this cache what it says it is? Every hash, every number, and ``W x + b`` against the logits."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from exitbench.cache.format.files import child, sha256
from exitbench.cache.format.shard_buffer import FEATURE_DTYPES
from exitbench.cache.reader import Cache
from exitbench.errors import InputError

BLOCK_ROWS = 2048


def verify(path: str | Path) -> list[str]:
    """Every defect found in the cache at ``path``, one line each; an empty list is a good cache."""
    try:
        cache = Cache(path)
    except InputError as error:
        return [str(error)]
    problems = list(changed_files(cache))
    try:
        problems += wrong_numbers(cache)
    except InputError as error:
        problems.append(str(error))
    return list(dict.fromkeys(problems))


def changed_files(cache: Cache) -> Iterator[str]:
    """Files that are missing, or whose bytes are not those the manifest names."""
    entries = [(cache.manifest.heads.file, cache.manifest.heads.sha256)] if cache.manifest.heads else []
    for shard in cache.manifest.shards:
        entries.append((shard.file, shard.sha256))
        if shard.features:
            entries.append((shard.features.file, shard.features.sha256))
    for name, expected in entries:
        try:
            digest = sha256(child(cache.path, name))
        except InputError as error:
            yield str(error)
            continue
        if digest != expected:
            yield f"{cache.path / name}: changed: expected sha256 {expected[:16]}..., found {digest[:16]}..."


def wrong_numbers(cache: Cache) -> Iterator[str]:
    """Values that are not finite, and logits or offset norms that the features do not give."""
    comparable = cache.has_heads and cache.has_features
    if cache.has_heads:
        cache.head_tensors()
    for layer in range(1, cache.layers + 1):
        if comparable:
            yield from islice(_inconsistent(cache, layer), 1)
        else:
            _read(cache, layer)


def _read(cache: Cache, layer: int) -> None:
    """Read all there is at a layer; what is not finite raises."""
    for rows in cache.blocks(BLOCK_ROWS):
        cache.logits(layer, rows)
        if cache.stores_offset_norms:
            cache.offset_norms(layer, rows)
        if cache.has_features:
            cache.features(layer, rows)


def _inconsistent(cache: Cache, layer: int) -> Iterator[str]:
    """Rows where ``W x + b`` is not the logits, or ``||x + o||`` not the offset norm, within rounding."""
    head = cache.head(layer)
    epsilon = torch.finfo(FEATURE_DTYPES[cache.manifest.feature_dtype or "float32"]).eps
    for rows in cache.blocks(BLOCK_ROWS):
        features = cache.features(layer, rows).double()
        expected = features @ head.weight.T + head.bias
        slack = 2 * epsilon * (features.abs() @ head.weight.abs().T + head.bias.abs()) + 1e-4
        wrong = torch.nonzero((cache.logits(layer, rows).double() - expected).abs() > slack)
        if len(wrong):
            row, column = (int(index) for index in wrong[0])
            stored = float(cache.logits(layer, rows)[row, column])
            yield (
                f"{cache.path}: features inconsistent with logits: expected {float(expected[row, column]):.6g} from"
                f" W x + b, found {stored:.6g} at layer {layer}, row {row + rows.start}, class {column}"
            )
        if not cache.stores_offset_norms:
            continue
        norm = torch.linalg.vector_norm(features + head.offset, dim=1)
        slack = 2 * epsilon * (torch.linalg.vector_norm(features, dim=1) + torch.linalg.vector_norm(head.offset)) + 1e-4
        wrong = torch.nonzero((cache.offset_norms(layer, rows).double() - norm).abs() > slack)
        if len(wrong):
            row = int(wrong[0])
            stored = float(cache.offset_norms(layer, rows)[row])
            yield (
                f"{cache.path}: features inconsistent with offset_norm: expected {float(norm[row]):.6g},"
                f" found {stored:.6g} at layer {layer}, row {row + rows.start}"
            )
