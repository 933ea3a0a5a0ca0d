"""Columns of result files as numbers with what each stands for, and rows that are read cell by cell.

A row of many columns takes a kilobyte as Python's values and a tenth of that in columns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, overload

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

CellOf = Callable[[int], Any]
"""The plain value in any row of a column."""


@dataclass(frozen=True, eq=False)
class CodedColumn:
    """A column as numbers, [rows], and the value that each stands for."""

    codes: NDArray[np.integer[Any]]
    values: Sequence[Any]

    @cached_property
    def code_of(self) -> dict[Any, int]:
        """The number of every value."""
        return {value: code for code, value in enumerate(self.values)}

    def among(self, values: Sequence[Any]) -> NDArray[np.bool_]:
        """Which rows have one of some values, [rows]."""
        wanted = np.zeros(len(self.values) + 1, dtype=bool)
        wanted[[self.code_of[value] for value in values if value in self.code_of]] = True
        return np.asarray(wanted[self.codes])


def coded_column(column: pa.ChunkedArray, value_of: Callable[[Any], Any] | None = None) -> CodedColumn:
    """A column as numbers in as few bytes as they need, its values as ``value_of`` makes them."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    encoded = column.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):  # one without rows, in some versions of pyarrow
        encoded = pa.DictionaryArray.from_arrays(pa.array([], pa.int32()), pa.array([], column.type.value_type))
    words: list[Any] = encoded.dictionary.to_pylist()
    codes = np.asarray(encoded.indices.fill_null(len(words)))
    if value_of is not None:  # two texts may be one value
        values = list(map(value_of, words))
        words = list(dict.fromkeys(values))
        codes = np.array([*map(words.index, values), len(words)])[codes]
    small = np.int16 if len(words) < np.iinfo(np.int16).max else np.int32
    return CodedColumn(codes.astype(small), [*words, None])


def number_cells(column: pa.ChunkedArray, absent: float | None) -> CellOf:
    """What gives the plain value of any row of a column of numbers; None for an absent count or flag."""
    whole = column.null_count == 0
    present = None if whole else np.asarray(column.is_valid().to_numpy(), dtype=bool)
    if pa.types.is_floating(column.type):
        numbers = column.to_numpy()
        if present is None:
            return lambda row: float(numbers[row])
        return lambda row: float(numbers[row]) if present[row] else absent
    kind = bool if pa.types.is_boolean(column.type) else int
    counts = column.fill_null(kind(0)).to_numpy()
    if present is None:
        return lambda row: kind(counts[row])
    return lambda row: kind(counts[row]) if present[row] else None


def coded_cells(coded: CodedColumn) -> CellOf:
    """What gives the value of any row of a coded column."""
    codes, values = coded.codes, coded.values
    return lambda row: values[codes[row]]


class NamedColumns(Protocol):
    """Columns by their names, of as many rows each."""

    @property
    def names(self) -> Sequence[str]: ...

    def cells_of(self, name: str) -> CellOf:
        """What gives the plain value of any row of a column."""


class RowInColumns(Mapping[str, Any]):
    """A row whose values are read when they are asked for."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: NamedColumns, row: int) -> None:
        self._columns, self._row = columns, row

    def __getitem__(self, name: str) -> Any:
        return self._columns.cells_of(name)(self._row)

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns.names)

    def __len__(self) -> int:
        return len(self._columns.names)


class RowsInColumns(Sequence[Mapping[str, Any]]):
    """The rows of some tables of one file, one table after another, each made when it is asked for.

    Values are those of ``to_pylist``: an absent number is None.
    """

    def __init__(self, schema: pa.Schema, tables: Sequence[pa.Table]) -> None:
        self.names: tuple[str, ...] = tuple(schema.names)
        self._size: int = sum(table.num_rows for table in tables)
        self._cells: dict[str, CellOf] = {}
        for field in schema:
            chunks = [chunk for table in tables for chunk in table[field.name].chunks]
            column = pa.chunked_array(chunks, None if chunks else field.type)
            if pa.types.is_string(field.type):
                self._cells[field.name] = coded_cells(coded_column(column))
            else:
                self._cells[field.name] = number_cells(column, None)

    def cells_of(self, name: str) -> CellOf:
        """What gives the plain value of any row of a column."""
        return self._cells[name]

    def __len__(self) -> int:
        return self._size

    @overload
    def __getitem__(self, row: int) -> Mapping[str, Any]: ...
    @overload
    def __getitem__(self, row: slice) -> Sequence[Mapping[str, Any]]: ...
    def __getitem__(self, row: int | slice) -> Mapping[str, Any] | Sequence[Mapping[str, Any]]:
        if isinstance(row, slice):
            return [self[position] for position in range(*row.indices(len(self)))]
        if not -len(self) <= row < len(self):
            raise IndexError(row)
        return RowInColumns(self, row % len(self))


def with_codes(table: pa.Table) -> pa.Table:
    """The table with its texts as codes, as which many tables are kept in little room."""
    for number, field in enumerate(table.schema):
        if pa.types.is_string(field.type):
            table = table.set_column(number, field.name, table[field.name].dictionary_encode())
    return table
