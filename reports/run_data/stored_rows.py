"""The rows of large result files as they are asked for: columns stay columns, and a row is made when somebody reads it.

A run over hundreds of caches has millions of rows, each of which takes a kilobyte as Python's values and a tenth of
that in columns. What is small is turned into plain rows at once, which is quicker to read.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import Any, overload

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import KEY, Row
from exitbench.reports.run_data.key_index import Key, KeyIndex

MANY = 1 << 18
"""Rows of a file from which on they are made one by one."""

Pair = Mapping[str, Any]


class StoredColumns:
    """The columns of a table with texts as codes, and the plain value of any cell.

    ``absent`` is what stands for a number that is not there.
    """

    def __init__(self, table: pa.Table, absent: float | None) -> None:
        self.size: int = table.num_rows
        self.names = tuple(table.column_names)
        self._values = {name: plain_cell(name, table[name], absent) for name in self.names}

    def cell(self, name: str, row: int) -> Any:
        """The value in a column of a row, an operating point as one; an absent layer, count, text or flag is None."""
        return self._values[name](row)

    def cells(self, names: Sequence[str], row: int) -> tuple[Any, ...]:
        """The values in some columns of a row."""
        return tuple(self._values[name](row) for name in names)


def plain_cell(name: str, column: pa.ChunkedArray, absent: float | None) -> Callable[[int], Any]:
    """What gives the plain value of any row of a column."""
    if pa.types.is_string(column.type):
        encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
        words: list[Any] = encoded.dictionary.to_pylist() if len(encoded) else []
        if name == "operating_point":
            words = [operating_point(word) for word in words]
        codes = np.asarray(encoded.indices.fill_null(len(words)), dtype=np.int32)
        words = [*words, None]
        return lambda row: words[codes[row]]
    present = np.asarray(column.is_valid().to_numpy(), dtype=bool)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy()
        return lambda row: float(numbers[row]) if present[row] else absent
    kind = bool if pa.types.is_boolean(column.type) else int
    whole = column.fill_null(kind(0)).to_numpy()
    return lambda row: kind(whole[row]) if present[row] else None


class StoredRows(Mapping[Key, Row]):
    """The rows of ``results.parquet`` by their key, in the order of the file."""

    def __init__(self, table: pa.Table) -> None:
        self._columns = StoredColumns(table, None)

    def __len__(self) -> int:
        return self._columns.size

    def __iter__(self) -> Iterator[Key]:
        return (self.key_at(position) for position in range(len(self)))

    def __getitem__(self, key: Key) -> Row:
        return self.row_at(self._index[key])

    def values(self) -> ValuesView[Row]:
        """The rows one after another; none is searched for."""
        return InOrder(self)

    def row_at(self, position: int) -> Row:
        """The row at a position of the file."""
        return Row(*self._columns.cells(Row._fields, position))

    def key_at(self, position: int) -> Key:
        """The key of that row."""
        return self._columns.cells(KEY, position)

    @cached_property
    def _index(self) -> KeyIndex:
        return KeyIndex(self, self.key_at)


class InOrder(ValuesView[Row]):
    """The rows of a file in its order."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows)
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        return map(self._rows.row_at, range(len(self._rows)))


class StoredPair(Mapping[str, Any]):
    """A row of ``pairs.parquet``: its values are read when they are asked for."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: StoredColumns, row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:
        return self._columns.cell(name, self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.names)

    def __len__(self) -> int:
        return len(self._columns.names)


class StoredPairs(Sequence[Pair]):
    """The rows of ``pairs.parquet`` in the order of the file."""

    def __init__(self, table: pa.Table) -> None:
        self._columns = StoredColumns(table, math.nan)

    def __len__(self) -> int:
        return self._columns.size

    @overload
    def __getitem__(self, row: int) -> Pair: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Pair]: ...
    def __getitem__(self, row: int | slice) -> Pair | Sequence[Pair]:
        if isinstance(row, slice):
            return [self[position] for position in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return StoredPair(self._columns, row % len(self))
