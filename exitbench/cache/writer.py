"""Writing a cache: batches from any loop, in shards that are whole or absent, resumable after a kill.

The manifest is rewritten after each shard and marked complete last, so a reader accepts the cache
exactly when everything is there. An interrupted write is resumed after its last whole shard and
ends in the same bytes as one that ran through.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from numpy.typing import ArrayLike
from torch import Tensor

from exitbench.cache.format.cache_rows import CacheRows
from exitbench.cache.format.content_ids import NO_CONTENT, ContentIds
from exitbench.cache.format.heads import Heads, HeadTensors, own_widths
from exitbench.cache.format.manifest import (
    MANIFEST,
    CostUnit,
    FeatureDtype,
    Manifest,
    Model,
    Output,
    SplitRole,
    Target,
    Task,
)
from exitbench.cache.format.manifest_file import parse_manifest
from exitbench.cache.format.resuming import (
    refuse_many_shards,
    refuse_other_total,
    started_provenance,
    written_ids,
)
from exitbench.cache.format.shard_buffer import ShardBuffer
from exitbench.cache.format.unfinished_cache import UnfinishedCache
from exitbench.errors import InputError


class CacheWarning(UserWarning):
    """Something about the data that a user should know, reported once."""


class CacheWriter:
    """A context manager that takes batches of any size and writes a complete cache.

    ``heads`` is (weight [layers, classes, width], bias [layers, classes]) or None; where exits differ in width, the
    weights are a list of one [classes, width of the layer] each, and ``widths`` says the same where there are no heads.
    ``feature_dtype`` None makes a compact cache: features may still be given, for the offset norms, but are not kept.
    ``costs`` [layers] is the cumulative cost of exiting at each layer, in ``cost_unit``; by default layer over depth.
    ``outputs`` are the extra outputs that every batch has; with ``groups`` every batch has groups; a cache that is not
    ``labelled`` is judged by agreement with the last layer (``target`` final), as a labelled one may be.
    ``role`` is ``train`` where the network was trained on these rows.
    Leaving the block by an exception keeps what is finished; the same call again resumes it. Loop over
    :meth:`pending` to deliver exactly the missing rows, also when several processes share the work
    (``rank`` of ``ranks``; ``barrier`` waits for all of them). Part i of n, ``part=(i, n)``, writes its share of the
    shards and leaves the cache unfinished; the same call without ``part`` writes what is missing and completes it.
    ``provenance`` may hold metadata of your own, such as a hash of the data; an unfinished cache is resumed only if
    they are the same.
    """

    def __init__(
        self,
        path: str | Path,
        *,
        task: Task,
        split: str,
        model: Model,
        heads: Heads | None = None,
        feature_dtype: FeatureDtype | None = None,
        shard_rows: int = 4096,
        provenance: dict[str, Any] | None = None,
        costs: Sequence[float] | None = None,
        cost_unit: CostUnit = "relative",
        widths: Sequence[int] | None = None,
        outputs: Sequence[Output] = (),
        groups: bool = False,
        labelled: bool = True,
        target: Target | None = None,
        role: SplitRole = "test",
        derived: Mapping[str, Any] | None = None,
        rank: int = 0,
        ranks: int = 1,
        barrier: Callable[[], None] = lambda: None,
        part: tuple[int, int] | None = None,
    ) -> None:
        self._starts = rank == 0
        if part is not None:  # every process of every part is a rank of its own, and none is the first, which joins
            rank, ranks = (part[0] - 1) * ranks + rank + 1, part[1] * ranks
        if shard_rows < 1:
            raise InputError(f"expected shards of at least 1 row, found {shard_rows}")
        self.path = Path(path)
        self.shard_rows, self.rank, self.ranks, self.barrier = shard_rows, rank, ranks, barrier
        own = tuple(widths) if widths is not None else own_widths(heads)
        width = None if own else model.width
        self._heads: HeadTensors | None = None
        if heads is not None:
            self._heads = HeadTensors.of(self.path, heads, task, model.layers, width, own)
            width = None if own else self._heads.width
        self._plan = Manifest(
            complete=False,
            task=task,
            split=split,
            model=replace(model, width=width),
            rows=0,
            feature_dtype=feature_dtype,
            heads=None,
            shards=(),
            **started_provenance(provenance),
            labelled=labelled,
            target=target or ("labels" if labelled else "final"),
            split_role=role,
            groups=groups,
            costs=None if costs is None else tuple(map(float, costs)),
            cost_unit=cost_unit,
            widths=own,
            outputs=tuple(outputs),
            derived=None if derived is None else json.loads(json.dumps(derived)),
        )
        parse_manifest(self._plan.to_json().encode(), self.path / MANIFEST)
        self._unfinished = UnfinishedCache(self.path, self._plan, self._heads, rank)
        self._total: int | None = None
        self._buffer: ShardBuffer | None = None
        self._next = 0
        self._warned: set[str] = set()
        self._content_ids: ContentIds | None = None

    def __enter__(self) -> Self:
        if self._starts:
            self._unfinished.start()
        self.barrier()
        self._unfinished.take_up(self.shard_rows)
        self._skip_done()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self._finish()

    @property
    def rows_done(self) -> int:
        """Rows in finished shards; a loop that does not use :meth:`pending` skips as many."""
        return self._unfinished.rows

    def pending(self, total_rows: int) -> Iterator[range]:
        """The rows of each shard that this process still has to deliver, one range at a time."""
        self._total = total_rows
        refuse_many_shards(self.path, total_rows, self.shard_rows)
        refuse_other_total(self.path, self._unfinished.done, self.shard_rows, total_rows)
        for number in range(self.rank % self.ranks, -(-total_rows // self.shard_rows), self.ranks):
            if number in self._unfinished.done:
                continue
            rows = range(number * self.shard_rows, min((number + 1) * self.shard_rows, total_rows))
            self._next = number
            self._buffer = ShardBuffer(self._plan, rows)
            yield rows
            if number not in self._unfinished.done:
                missing = rows.stop - self._buffer.position
                raise InputError(f"{self.path}: expected rows {rows.start} to {rows.stop - 1}, {missing} are missing")

    def add(
        self,
        *,
        logits: Tensor | ArrayLike,
        labels: Tensor | ArrayLike | None = None,
        features: Tensor | ArrayLike | Sequence[Tensor | ArrayLike] | None = None,
        ids: Tensor | ArrayLike | None = None,
        offset_norm: Tensor | ArrayLike | None = None,
        groups: Tensor | ArrayLike | None = None,
        outputs: Mapping[str, Tensor | ArrayLike] | None = None,
    ) -> None:
        """Take a batch: labels [n], logits [layers, n, classes], features [layers, n, width], ids [n], groups [n].

        Features are a list of one [n, width of the layer] each where exits differ in width; outputs are [layers, n] or
        [layers, n, k] by name. Offset norms [layers, n] are computed from features and heads when they are not given;
        ids when they are not given are hashes of the rows' labels and features, or without features the row numbers.
        Float64 values are rounded to float32.
        """
        batch = CacheRows.make(
            logits=logits,
            labels=labels,
            features=features,
            ids=ids,
            offset_norm=offset_norm,
            groups=groups,
            outputs=outputs,
            ragged=self._plan.widths is not None,
        )
        if batch.rounded:
            self._warn_once("float64 values were rounded to float32")
        start = self._buffer.position if self._buffer else self._next * self.shard_rows
        batch.check(self._plan, start)
        if batch.offset_norm is None and batch.features is not None and self._heads is not None:
            batch = batch.with_offset_norms(self._heads.offsets)
            batch.check(self._plan, start)  # the squares of finite features may not be finite
        if batch.ids is None and batch.features is None:
            self._warn_once(f"{self.path}: {NO_CONTENT}")
        elif batch.ids is None:
            batch = self._with_ids(batch)
        while len(batch):
            if self._buffer is None:
                if self._total is not None:
                    raise InputError(f"{self.path}: expected no more rows than were pending, found {len(batch)} more")
                first = self._next * self.shard_rows
                self._buffer = ShardBuffer(self._plan, range(first, first + self.shard_rows))
            batch = self._buffer.take(batch)
            if self._buffer.full:
                self._write_shard()

    def _with_ids(self, batch: CacheRows) -> CacheRows:
        """The batch, which has features, with ids from its content."""
        assert batch.features is not None
        if self._content_ids is None:
            self._content_ids = ContentIds(written_ids(self.path, self._unfinished.done.values()).tolist())
        return replace(batch, ids=self._content_ids.of(tuple(batch.features), batch.labels))

    def _warn_once(self, message: str) -> None:
        if message not in self._warned:
            self._warned.add(message)
            warnings.warn(message, CacheWarning, stacklevel=3)

    def _write_shard(self) -> None:
        assert self._buffer is not None
        self._unfinished.write_shard(self._next, self._buffer)
        self._buffer = None
        self._skip_done()

    def _skip_done(self) -> None:
        while self._next in self._unfinished.done:
            self._next += 1

    def _finish(self) -> None:
        if self._buffer is not None and self._buffer.filled:
            if self._total is not None:
                raise InputError(f"{self.path}: expected all pending rows, the last shard is not full")
            self._write_shard()
        self.barrier()
        if self.rank == 0:
            self._unfinished.complete(self._total)
        self.barrier()
