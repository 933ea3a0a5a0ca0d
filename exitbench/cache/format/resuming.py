"""Taking up an interrupted write: what the shards are called, and whether this is the same collection."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from exitbench.cache.format.manifest import Manifest, ShardEntry
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


def refuse_other_total(path: Path, done: Mapping[int, ShardEntry], shard_rows: int, total_rows: int) -> None:
    """Every finished shard must be one of those that make up ``total_rows``."""
    for number, entry in done.items():
        expected = min(shard_rows, total_rows - number * shard_rows)
        if entry.rows != expected:
            raise InputError(
                f"{path}: cannot resume: {entry.file} has {entry.rows} rows, expected {max(expected, 0)}"
                f" of {total_rows} in shards of {shard_rows}"
            )
