"""Is this cache what it says it is? Every hash, every number, and ``W x + b`` against the logits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import torch

from exitbench.cache.format.arrays import FEATURE_DTYPES
from exitbench.cache.format.files import child, refuse_changed
from exitbench.cache.format.manifest import MANIFEST
from exitbench.cache.format.manifest_file import read_manifest
from exitbench.cache.reader import Cache
from exitbench.errors import InputError

BLOCK_ROWS = 2048
SHA256 = re.compile(r"[0-9a-f]{64}")
PROJECTION_SLACK = 0.01
"""How much longer, relatively, the projection may be than the whole: features of 16 bits, and a rank cut off."""


def verify(path: str | Path) -> list[str]:
    """Every defect found in the cache at ``path``, one line each; an empty list is a good cache."""
    try:
        cache = Cache(path)
    except InputError as error:
        return [str(error)]
    problems = [*changed_files(cache), *unnamed_sources(cache)]
    try:
        problems += wrong_numbers(cache)
    except InputError as error:
        problems.append(str(error))
    return list(dict.fromkeys(problems))


def changed_files(cache: Cache) -> Iterator[str]:
    """Files that are missing, or whose bytes are not those the manifest names."""
    for entry in cache.manifest.files:
        try:
            refuse_changed(child(cache.path, entry.file), entry.sha256)
        except InputError as error:
            yield str(error)


def unnamed_sources(cache: Cache) -> Iterator[str]:
    """What a derived cache does not say of where it comes from: a name and a hash of every source."""
    if cache.manifest.derived is None:
        return
    sources = cache.manifest.derived.get("sources")
    if not isinstance(sources, dict) or not sources:
        yield f"{cache.path}: expected the sources that it was derived from, found none"
        return
    for role, source in sources.items():
        digest = source.get("manifest_sha256") if isinstance(source, dict) else None
        if not isinstance(digest, str) or not SHA256.fullmatch(digest):
            yield f"{cache.path}: expected a sha256 of its source {role}, found {digest!r}"


def unlisted_files(path: str | Path) -> list[str]:
    """What lies in the directory of a cache and is not listed in its manifest, by name; hidden files too.

    Nothing reads these files; code that came with data, or what an interrupted write left, is worth a look. Without a
    manifest that can be read, nothing is listed and nothing is named.
    """
    directory = Path(path)
    try:
        listed = {MANIFEST, *(entry.file for entry in read_manifest(directory).files)}
    except InputError:
        return []
    return sorted(item.name for item in directory.iterdir() if item.name not in listed)


def wrong_numbers(cache: Cache) -> Iterator[str]:
    """Values that are not finite, and logits or offset norms that the features do not give."""
    comparable = cache.has_heads and cache.has_features
    if cache.has_heads:
        cache.head_tensors()
    for layer in range(1, cache.layers + 1):
        for name in cache.output_names:
            for rows in cache.blocks(BLOCK_ROWS):
                cache.output(name, layer, rows)
        if comparable:
            yield from islice(_inconsistent(cache, layer), 1)
        else:
            _read(cache, layer)
            if cache.has_heads and cache.stores_offset_norms:
                yield from islice(_too_short(cache, layer), 1)


def _read(cache: Cache, layer: int) -> None:
    """Read all there is at a layer; what is not finite raises."""
    for rows in cache.blocks(BLOCK_ROWS):
        cache.logits(layer, rows)
        if cache.stores_offset_norms:
            cache.offset_norms(layer, rows)
        if cache.has_features:
            cache.features(layer, rows)


def _too_short(cache: Cache, layer: int) -> Iterator[str]:
    """Rows whose offset norm ``||x~||`` is below ``||P x~||``, which the logits give without any feature."""
    head = cache.head(layer)
    for rows in cache.blocks(BLOCK_ROWS):
        logits, norms = cache.logits(layer, rows).double(), cache.offset_norms(layer, rows).double()
        projected = ((logits @ head.gram_inverse) * logits).sum(dim=1).clamp(min=0).sqrt()
        wrong = torch.nonzero(projected > norms * (1 + PROJECTION_SLACK) + 1e-4)
        if len(wrong):
            row = int(wrong[0])
            yield (
                f"{cache.path}: logits inconsistent with offset_norm: expected at least {float(projected[row]):.6g},"
                f" found {float(norms[row]):.6g} at layer {layer}, row {row + rows.start}"
            )


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
