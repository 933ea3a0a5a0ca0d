"""The rows of single caches in a large result file, read without those of the others.

The result files of many caches are joined one unit after another, so that each of their row groups is of one cache and
says so in its statistics. A group that says nothing, or may hold several caches, is read whenever it could have rows.
The footer of such a file, some tens of megabytes that take hundreds in memory, is read for several caches at a time and
not kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from exitbench.benchmarks.results.coded_columns import coded_column
from exitbench.benchmarks.results.key_index import KeyIndex

AHEAD = 16
"""Caches that are read together, the one that is asked for and those that come next."""
CACHE = 0
"""Where the column stands in every result file; ``footer.schema`` would know, but it and its footer hold each other."""
LAST = chr(0x10FFFF)
"""No name comes behind it."""


class RowsByCache:
    """A result file whose rows are read when they are asked for.

    ``order`` is in which order caches are likely to be asked for. ``rows_read`` counts the rows that were read, whether
    they were wanted or not.
    """

    def __init__(self, path: Path, order: Sequence[str] = ()) -> None:
        self._path, self._order = path, order
        self._place = {cache: number for number, cache in enumerate(order)}
        self._groups: dict[str, list[int]] = {}
        """The row groups that hold one cache and no other."""
        self._unclear: dict[int, tuple[str, str]] = {}
        """The row groups that may hold several caches, with the first and the last name that they may have."""
        self._kept: dict[str, pa.Table] = {}
        self.rows_read = 0
        footer = pq.read_metadata(path)
        for number in range(footer.num_row_groups):
            statistics = footer.row_group(number).column(CACHE).statistics
            known = statistics is not None and statistics.has_min_max
            if known and statistics.min == statistics.max:
                self._groups.setdefault(statistics.min, []).append(number)
            else:
                self._unclear[number] = (statistics.min, statistics.max) if known else ("", LAST)

    def of(self, cache: str) -> pa.Table:
        """The rows of one cache in the order of the file."""
        if cache not in self._kept:
            self._read([cache, *self._next(cache)])
        return self._kept.pop(cache)

    def words(self, name: str) -> dict[str, set[str]]:
        """The different texts in a column, by cache."""
        words: dict[str, set[str]] = {}
        with pq.ParquetFile(self._path, read_dictionary=["cache", name]) as file:
            for batch in file.iter_batches(1 << 18, columns=["cache", name]):
                columns = [coded_column(pa.chunked_array([batch.column(each)])) for each in ("cache", name)]
                for row in KeyIndex(columns).first_positions().tolist():
                    cache, word = (column.values[column.codes[row]] for column in columns)
                    words.setdefault(cache, set()).add(word)
        return words

    def _next(self, cache: str) -> Sequence[str]:
        """The caches that are likely to be asked for after one."""
        if cache not in self._place:
            return ()
        first = self._place[cache] + 1
        return self._order[first : first + AHEAD - 1]

    def _read(self, caches: Sequence[str]) -> None:
        """Read the rows of some caches, and keep them until they are asked for; what was kept before is given up."""
        self._kept = {}
        with pq.ParquetFile(self._path) as file:
            for cache in caches:
                certain = self._groups.get(cache, [])
                possible = [number for number, (low, high) in self._unclear.items() if low <= cache <= high]
                numbers = sorted([*certain, *possible])
                table = file.read_row_groups(numbers) if numbers else file.schema_arrow.empty_table()
                self.rows_read += table.num_rows
                self._kept[cache] = table.filter(pc.equal(table["cache"], cache)) if possible else table
