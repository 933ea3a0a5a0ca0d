"""The rows of result files: of small ones all at once, of large ones as they are asked for.

Columns stay columns where there are many rows, and a row is made when somebody reads it. What is small is turned into
plain rows at once, which is quicker to read.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping, Sequence, ValuesView
from functools import cached_property
from typing import Any, overload

from exitbench.benchmarks.results.coded_columns import RowInColumns
from exitbench.benchmarks.results.key_index import Key, KeyIndex
from exitbench.benchmarks.results.schema import KEY, PAIR_KEY, Row
from exitbench.reports.run_data.stored_columns import StoredColumns

MANY = 1 << 18
"""Rows of a file from which on they are made one by one."""

Pair = Mapping[str, Any]

COLUMN = ("cache", "model", "split", "protocol", "operating_point", "layer", "decisions", "measure")
"""What makes a column of results, or of pairs, in which entries stand."""
ROW_ORDER = (*COLUMN, *(name for name in KEY if name not in COLUMN))
PAIR_ORDER = (*COLUMN, *(name for name in PAIR_KEY if name not in COLUMN))
"""The parts of a key in an order in which the rows of a cache, and those of a column, lie together."""


class PlainRows(dict[Key, Row]):
    """The rows of ``results.parquet`` by their key, in the order of the file."""

    def where(self, **wanted: Sequence[Any]) -> Iterator[Row]:
        """The rows that have one of some values in each of some columns, in the order of the file."""
        return (row for row in self.values() if all(getattr(row, name) in values for name, values in wanted.items()))

    def compared(self, column: Key) -> list[Row]:
        """The rows of entries that were compared in a column, by the parts of :data:`COLUMN`."""
        return self._compared.get(column, [])

    def distinct(self, *names: str) -> list[tuple[Any, ...]]:
        """The different values of some columns together, in the order in which they first appear."""
        return list(dict.fromkeys(tuple(getattr(row, name) for name in names) for row in self.values()))

    def of_cache(self, cache: str) -> Sequence[Row]:
        """The rows of one cache, in the order of the file."""
        return self._by_cache.get(cache, [])

    def position(self, key: Key) -> int:
        """Where the row with a key stands in the file."""
        return self._positions[key]

    @cached_property
    def _positions(self) -> dict[Key, int]:
        return {key: position for position, key in enumerate(self)}

    @cached_property
    def _compared(self) -> dict[Key, list[Row]]:
        compared: dict[Key, list[Row]] = {}
        for row in self.values():
            if row.best is not None:
                compared.setdefault(tuple(getattr(row, name) for name in COLUMN), []).append(row)
        return compared

    @cached_property
    def _by_cache(self) -> dict[str, list[Row]]:
        by_cache: dict[str, list[Row]] = {}
        for row in self.values():
            by_cache.setdefault(row.cache, []).append(row)
        return by_cache


class StoredRows(Mapping[Key, Row]):
    """The same rows, each made when it is asked for."""

    def __init__(self, columns: StoredColumns) -> None:
        self._columns = columns

    def __len__(self) -> int:
        return self._columns.size

    def __iter__(self) -> Iterator[Key]:
        cells = [self._columns.cells_of(name) for name in KEY]
        return (tuple(cell(position) for cell in cells) for position in range(len(self)))

    def __getitem__(self, key: Key) -> Row:
        return next(self.rows_at([self.position(key)]))

    def position(self, key: Key) -> int:
        """Where the row with a key stands in the file."""
        return self._index[tuple(key[number] for number in _KEY_ORDER)]

    def values(self) -> ValuesView[Row]:
        """The rows one after another; none is searched for."""
        return InOrder(self)

    def rows_at(self, positions: Iterable[int]) -> Iterator[Row]:
        """The rows at some positions of the file."""
        cells = self._row_cells
        return (Row(*[cell(position) for cell in cells]) for position in positions)

    def where(self, **wanted: Sequence[Any]) -> Iterator[Row]:
        """The rows that have one of some values in each of some columns, in the order of the file."""
        return self.rows_at(self._columns.positions_where(wanted).tolist())

    def compared(self, column: Key) -> list[Row]:
        """The rows of entries that were compared in a column, by the parts of :data:`COLUMN`."""
        return [row for row in self._rows_under(column) if row.best is not None]

    def distinct(self, *names: str) -> list[tuple[Any, ...]]:
        """The different values of some columns together, in the order in which they first appear."""
        return self._columns.distinct(names)

    def of_cache(self, cache: str) -> Sequence[Row]:
        """The rows of one cache, in the order of the file."""
        return list(self._rows_under((cache,)))

    @cached_property
    def _row_cells(self) -> list[Any]:
        return [self._columns.cells_of(name) for name in Row._fields]

    @cached_property
    def _index(self) -> KeyIndex:
        return self._columns.index(ROW_ORDER)

    def _rows_under(self, beginning: Key) -> Iterator[Row]:
        """The rows whose key begins so, in the order of the file."""
        return self.rows_at(self._index.positions(beginning).tolist())


_KEY_ORDER = [KEY.index(name) for name in ROW_ORDER]
_PAIR_KEY_ORDER = [PAIR_KEY.index(name) for name in PAIR_ORDER]


class InOrder(ValuesView[Row]):
    """The rows of a file in its order."""

    def __init__(self, rows: StoredRows) -> None:
        super().__init__(rows)
        self._rows = rows

    def __iter__(self) -> Iterator[Row]:
        return self._rows.rows_at(range(len(self._rows)))


class PlainPairs(list[Pair]):
    """The rows of ``pairs.parquet`` in the order of the file."""

    def position(self, key: Key) -> int:
        """Where the row with a key, by the parts of ``PAIR_KEY``, stands in the file."""
        return self._positions[key]

    def where(self, **wanted: Sequence[Any]) -> Iterator[Pair]:
        """The rows that have one of some values in each of some columns, in the order of the file."""
        return (pair for pair in self if all(pair[name] in values for name, values in wanted.items()))

    def of_column(self, column: Key) -> Sequence[Pair]:
        """The rows of a column, by the parts of :data:`COLUMN`."""
        return self._columns.get(column, [])

    @cached_property
    def _positions(self) -> dict[Key, int]:
        key_of = operator.itemgetter(*PAIR_KEY)
        return {key_of(pair): position for position, pair in enumerate(self)}

    @cached_property
    def _columns(self) -> dict[Key, list[Pair]]:
        column_of = operator.itemgetter(*COLUMN)
        columns: dict[Key, list[Pair]] = {}
        for pair in self:
            columns.setdefault(column_of(pair), []).append(pair)
        return columns


class StoredPairs(Sequence[Pair]):
    """The same rows, each made when it is asked for."""

    def __init__(self, columns: StoredColumns) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return self.columns.size

    @overload
    def __getitem__(self, row: int) -> Pair: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Pair]: ...
    def __getitem__(self, row: int | slice) -> Pair | Sequence[Pair]:
        if isinstance(row, slice):
            return [self[position] for position in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return RowInColumns(self.columns, row % len(self))

    def position(self, key: Key) -> int:
        """Where the row with a key, by the parts of ``PAIR_KEY``, stands in the file."""
        return self._index[tuple(key[number] for number in _PAIR_KEY_ORDER)]

    def where(self, **wanted: Sequence[Any]) -> Iterator[Pair]:
        """The rows that have one of some values in each of some columns, in the order of the file."""
        return map(self.__getitem__, self.columns.positions_where(wanted).tolist())

    def of_column(self, column: Key) -> Sequence[Pair]:
        """The rows of a column, by the parts of :data:`COLUMN`."""
        return [RowInColumns(self.columns, position) for position in self._index.positions(column).tolist()]

    @cached_property
    def _index(self) -> KeyIndex:
        return self.columns.index(PAIR_ORDER)
