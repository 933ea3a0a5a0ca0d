"""A cache on its way to being whole: shards and the records of what is there, which a kill at any moment leaves true.

Several processes may write at once: the first keeps its record in the manifest, each other one (``rank``) in a file of
its own, until the first joins them all.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

from exitbench import atomic_files
from exitbench.atomic_files import PARTIAL, make_directory, partial_name, write_text, write_whole
from exitbench.cache.format.heads import HeadTensors
from exitbench.cache.format.manifest import MANIFEST, FileEntry, Manifest, ShardEntry
from exitbench.cache.format.manifest_file import MOST_SHARDS, parse_manifest, read_manifest
from exitbench.cache.format.resuming import (
    features_name,
    refuse_other_collection,
    refuse_other_shards,
    refuse_repeated_ids,
    shard_name,
    shard_number,
)
from exitbench.cache.format.safetensors_file import encode
from exitbench.cache.format.shard_buffer import ShardBuffer
from exitbench.errors import InputError

HEADS = "heads.safetensors"


class UnfinishedCache:
    """The folder of a cache that is being written: ``done`` are its finished shards by number, of all processes."""

    def __init__(self, path: Path, plan: Manifest, heads: HeadTensors | None, rank: int) -> None:
        self.path, self.plan, self.rank = path, plan, rank
        self.done: dict[int, ShardEntry] = {}
        self._heads = heads
        self._rank_shards: dict[int, ShardEntry] = {}

    @property
    def rows(self) -> int:
        """Rows in finished shards."""
        return sum(entry.rows for entry in self.done.values())

    def start(self) -> None:
        """Make the folder with an empty manifest, unless there is one to go on with."""
        path = self.path
        if path.exists() and not path.is_dir():
            raise InputError(f"{path}: expected a directory or nothing, found a file")
        if (path / MANIFEST).exists():
            return
        leftovers = {partial_name(path / MANIFEST).name}
        if path.exists() and {item.name for item in path.iterdir()} - leftovers:
            raise InputError(f"{path}: expected an empty directory or an unfinished cache, found other files")
        make_directory(path)
        write_text(path / MANIFEST, self.plan.to_json())

    def take_up(self, shard_rows: int) -> None:
        """Adopt what an earlier start finished, if this is the same collection."""
        earlier = read_manifest(self.path)
        if earlier.complete:
            raise InputError(f"{self.path}: expected a new or unfinished cache, found a complete one")
        heads = None if self._heads is None else self._write_heads(self._heads.file_bytes, earlier)
        self.plan = replace(self.plan, heads=heads)
        refuse_other_collection(self.path, earlier, self.plan)
        self.plan = replace(self.plan, provenance=earlier.provenance, extra_provenance=earlier.extra_provenance)
        for record in [earlier, *self._rank_records()]:
            for entry in record.shards:
                self.done[shard_number(entry.file)] = entry
        rank_record = earlier if self.rank == 0 else self._rank_record()
        self._rank_shards = {shard_number(entry.file): entry for entry in rank_record.shards} if rank_record else {}
        refuse_other_shards(self.path, self.done, shard_rows)

    def write_shard(self, number: int, buffer: ShardBuffer) -> None:
        """Write the rows of a buffer as a shard, then the record that it is there."""
        if number >= MOST_SHARDS:
            raise InputError(f"{self.path}: expected at most {MOST_SHARDS:,} shards, found more; give larger ones")
        tensors, features = buffer.tensors()
        entry: FileEntry | None = None
        if features:
            name = features_name(number)
            entry = FileEntry(name, write_whole(self.path / name, encode(features)))
        digest = write_whole(self.path / shard_name(number), encode(tensors))
        shard = ShardEntry(buffer.filled, shard_name(number), digest, entry)
        self.done[number] = self._rank_shards[number] = shard
        self._write_record(complete=False)

    def complete(self, total_rows: int | None) -> None:
        """Join the shards of all processes and mark the cache complete; only if all of ``total_rows`` are there."""
        for record in self._rank_records():
            self.done |= {shard_number(entry.file): entry for entry in record.shards}
        if not self.done:
            raise InputError(f"{self.path}: expected at least one row, found none")
        missing = set(range(max(self.done) + 1)) - set(self.done)
        if missing or (total_rows is not None and self.rows != total_rows):
            raise InputError(f"{self.path}: expected all shards, {len(missing) or 'some'} are missing")
        refuse_repeated_ids(self.path, self.done.values())
        if leftovers := [*self._rank_paths(), *self.path.glob(f".*{PARTIAL}")]:
            # The other ranks' shards are recorded first, so that no moment of a kill loses one.
            self._rank_shards = self.done
            self._write_record(complete=False)
            for path in leftovers:
                atomic_files.disk.remove(path)
        self._write_record(complete=True)

    def _write_heads(self, blocks: bytes, earlier: Manifest) -> FileEntry:
        target = self.path / HEADS
        if self.rank == 0 and not (target.exists() and target.read_bytes() == blocks):
            if earlier.shards:
                raise InputError(f"{self.path}: cannot resume: the heads differ from those of the earlier start")
            write_whole(target, [blocks])
        return FileEntry(HEADS, hashlib.sha256(blocks).hexdigest())

    def _record_path(self, rank: int) -> Path:
        return self.path / (MANIFEST if rank == 0 else f".rank-{rank:05d}.json")

    def _write_record(self, *, complete: bool) -> None:
        entries = self.done if complete else self._rank_shards
        record = self.plan.with_shards(tuple(entries[k] for k in sorted(entries)), complete=complete)
        write_text(self._record_path(self.rank), record.to_json())

    def _rank_record(self) -> Manifest | None:
        path = self._record_path(self.rank)
        return parse_manifest(path.read_bytes(), path) if path.exists() else None

    def _rank_paths(self) -> list[Path]:
        return sorted(self.path.glob(".rank-*.json"))

    def _rank_records(self) -> list[Manifest]:
        return [parse_manifest(path.read_bytes(), path) for path in self._rank_paths()]
