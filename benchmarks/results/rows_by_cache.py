"""The rows of single caches in a large result file, read without those of the others.

The result files of many caches are joined one unit after another, so that each of their row groups is of one cache and
says so in its statistics. A group that says nothing, or may hold several caches, is read whenever it could have rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]


class RowsByCache:
    """A parquet file with a column ``cache``; only its footer is read before somebody asks for rows.

    ``rows_read`` counts the rows that were, with all their columns, wanted or not.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._footer = pq.read_metadata(path)
        self.rows_read = 0

    def of(self, cache: str, columns: Sequence[str] | None = None) -> pa.Table:
        """The rows of one cache in the order of the file; of ``columns``, the cache among them, only those."""
        certain, possible = self._groups.get(cache, []), self._unclear
        numbers = sorted([*certain, *(number for number, (low, high) in possible.items() if low <= cache <= high)])
        with pq.ParquetFile(self._path, metadata=self._footer) as file:
            table = file.read_row_groups(numbers, columns) if numbers else file.schema_arrow.empty_table()
        if columns is None:
            self.rows_read += table.num_rows
        return table if len(numbers) == len(certain) else table.filter(pc.equal(table["cache"], cache))

    @cached_property
    def _ranges(self) -> list[tuple[str, str]]:
        """The first and the last name of a cache that each row group may hold."""
        column = self._footer.schema.names.index("cache")
        ranges = []
        for number in range(self._footer.num_row_groups):
            statistics = self._footer.row_group(number).column(column).statistics
            known = statistics is not None and statistics.has_min_max
            ranges.append((statistics.min, statistics.max) if known else ("", LAST))
        return ranges

    @cached_property
    def _groups(self) -> dict[str, list[int]]:
        """The row groups that hold one cache and no other."""
        groups: dict[str, list[int]] = {}
        for number, (low, high) in enumerate(self._ranges):
            if low == high:
                groups.setdefault(low, []).append(number)
        return groups

    @cached_property
    def _unclear(self) -> dict[int, tuple[str, str]]:
        """The row groups that may hold several caches, with what they say of them."""
        return {number: names for number, names in enumerate(self._ranges) if names[0] != names[1]}


LAST = chr(0x10FFFF)
"""No name comes behind it."""
