"""Taking up an interrupted write: what the shards are called, and whether this is the same collection."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.cache.format.manifest import VERSION_2, Manifest, Provenance, ShardEntry
from exitbench.cache.format.manifest_file import MOST_SHARDS
from exitbench.cache.format.safetensors_file import open_tensors
from exitbench.errors import InputError


def shard_name(number: int) -> str:
    """The file of shard ``number``, counted from 0."""
    return f"shard-{number:05d}.safetensors"


def features_name(number: int) -> str:
    """The feature file of shard ``number``."""
    return f"shard-{number:05d}.features.safetensors"


def shard_number(name: str) -> int:
    """The number in a shard's file name."""
    digits = name.removeprefix("shard-").removesuffix(".safetensors")
    return int(digits) if digits.isdigit() else -1


def started_provenance(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The two fields of a manifest that say where its numbers come from; what is not listed there is kept too."""
    metadata = {"started": datetime.now(UTC).isoformat(timespec="seconds"), **(given or {})}
    listed = {name: metadata.pop(name) for name in Provenance.__dataclass_fields__ if name in metadata}
    return {"provenance": Provenance(**listed), "extra_provenance": tuple(sorted(metadata.items()))}


def refuse_other_collection(path: Path, earlier: Manifest, now: Manifest) -> None:
    """A collection resumes with the same data, task, model, versions and dtype, or not at all."""
    pairs = {
        "task": (earlier.task, now.task),
        "split": (earlier.split, now.split),
        "model": (earlier.model, now.model),
        "feature dtype": (earlier.feature_dtype, now.feature_dtype),
        "versions": (earlier.provenance.versions, now.provenance.versions),
        "dtype": (earlier.provenance.dtype, now.provenance.dtype),
        "device": (earlier.provenance.device, now.provenance.device),
        "seed": (earlier.provenance.seed, now.provenance.seed),
    }
    for name in VERSION_2:
        pairs[name.replace("_", " ")] = (getattr(earlier, name), getattr(now, name))
    facts_then, facts_now = dict(earlier.extra_provenance), dict(now.extra_provenance)
    for name in sorted({*facts_then, *facts_now}):
        pairs[name.replace("_", " ")] = (facts_then.get(name), facts_now.get(name))
    if earlier.shards:
        pairs["heads"] = (earlier.heads, now.heads)
    for name, (was, is_now) in pairs.items():
        if was != is_now:
            raise InputError(
                f"{path}: cannot resume: {name} was {was} at the earlier start, now {is_now};"
                " to start anew, remove the directory"
            )


def refuse_other_shards(path: Path, done: Mapping[int, ShardEntry], shard_rows: int) -> None:
    """Every finished shard but the last must have the rows that shards have now."""
    for number, entry in sorted(done.items()):
        last = number == max(done)
        if entry.rows > shard_rows or (entry.rows < shard_rows and not last):
            raise InputError(
                f"{path}: cannot resume: expected shards of {shard_rows} rows, found {entry.rows} in {entry.file}"
            )


def refuse_many_shards(path: Path, total_rows: int, shard_rows: int) -> None:
    """``total_rows`` must fit into as many shards as a manifest may list; to be asked before the first is made."""
    shards = -(-total_rows // shard_rows)
    if shards > MOST_SHARDS:
        raise InputError(
            f"{path}: expected at most {MOST_SHARDS:,} shards, found {total_rows:,} rows,"
            f" which make {shards:,} of {shard_rows:,}; give larger ones"
        )


def refuse_other_total(path: Path, done: Mapping[int, ShardEntry], shard_rows: int, total_rows: int) -> None:
    """Every finished shard must be one of those that make up ``total_rows``."""
    for number, entry in done.items():
        expected = min(shard_rows, total_rows - number * shard_rows)
        if entry.rows != expected:
            raise InputError(
                f"{path}: cannot resume: {entry.file} has {entry.rows} rows, expected {max(expected, 0)}"
                f" of {total_rows} in shards of {shard_rows}"
            )


def written_ids(path: Path, shards: Iterable[ShardEntry]) -> NDArray[np.int64]:
    """The ids of the rows in finished shards, in the order of the shards."""
    ids = [open_tensors(path, entry.file).tensor("ids").copied().numpy() for entry in shards]
    return np.concatenate(ids) if ids else np.empty(0, dtype=np.int64)


def refuse_repeated_ids(path: Path, shards: Iterable[ShardEntry]) -> None:
    """Every id of all shards together must be there once: randomness is a function of it."""
    values, counts = np.unique(written_ids(path, shards), return_counts=True)
    if counts.max() > 1:
        raise InputError(
            f"{path}: expected every id once, found id {values[counts > 1][0]} more than once"
            " (where several processes write equal rows, give ids)"
        )
