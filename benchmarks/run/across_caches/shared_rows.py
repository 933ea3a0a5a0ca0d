"""Which caches of a suite lie on the same rows, and which are of the same network."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from exitbench.cache import Cache, Manifest
from exitbench.errors import InputError


def rows_of_caches(paths: Sequence[Path], manifests: Mapping[str, Manifest]) -> dict[str, str]:
    """Cache name to a digest of its samples, where caches that are averaged could lie on the same rows.

    Caches have the same rows where task, split, ids and labels agree. Only caches of one task, split and size are
    opened. Raises InputError where such caches put their rows in different groups.
    """
    alike: dict[tuple[str, str, int], list[Path]] = {}
    for path in paths:
        manifest = manifests[path.name]
        key = manifest.task.name, manifest.split, manifest.rows
        alike.setdefault(key, []).append(path)
    digests: dict[str, str] = {}
    groups: dict[str, tuple[str, bytes]] = {}
    for several in alike.values():
        if len(several) < 2:
            continue
        for path in several:
            try:
                cache = Cache(path)
                digest = rows_digest(cache)
            except InputError:  # the run names a damaged cache, and goes on with the others
                continue
            digests[path.name] = digest
            own = b"" if cache.groups is None else cache.groups[np.argsort(cache.ids, kind="stable")].tobytes()
            first, expected = groups.setdefault(digest, (path.name, own))
            if own != expected:
                raise InputError(
                    f"caches {first} and {path.name} have the same rows of task {cache.manifest.task.name!r}: expected "
                    "the same groups in both, found different ones"
                )
    return digests


def sharing_caches(digests: Mapping[str, str]) -> set[str]:
    """The caches whose rows another one has too."""
    counts = Counter(digests.values())
    return {name for name, digest in digests.items() if counts[digest] > 1}


def rows_digest(cache: Cache) -> str:
    """A digest of the ids and labels of a cache, whatever their order; of the ids alone without labels."""
    order = np.argsort(cache.ids, kind="stable")
    digest = hashlib.sha256(np.ascontiguousarray(cache.ids[order]).tobytes())
    if cache.labelled:
        digest.update(np.ascontiguousarray(cache.labels[order]).tobytes())
    return digest.hexdigest()


def network_of(manifest: Manifest) -> str:
    """What tells a network from others of its name: the hash of its heads, without heads those of what it said."""
    files = [shard.sha256 for shard in manifest.shards] if manifest.heads is None else [manifest.heads.sha256]
    return hashlib.sha256(json.dumps([manifest.model.name, files]).encode()).hexdigest()[:16]
