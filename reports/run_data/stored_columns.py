"""The columns of a large result file: read when somebody asks for them, texts as small numbers.

A run over hundreds of caches has millions of rows, each of which takes a kilobyte as Python's values and a tenth of
that in columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
from numpy.typing import NDArray

from exitbench.benchmarks.results.coded_columns import CellOf, CodedColumn, coded_cells, coded_column, number_cells
from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.results.key_index import KeyIndex
from exitbench.benchmarks.results.operating_point import operating_point
from exitbench.benchmarks.results.schema import SCHEMAS

FEW_NUMBERS = ("layer", "n")
"""Columns of whole numbers of which there are few different ones."""


class StoredColumns:
    """The columns of one of a run's files, and the plain value of any cell.

    ``absent`` is what stands for a number that is not there. Raises InputError for odd operating points.
    """

    def __init__(self, files: RunFiles, name: str, absent: float | None) -> None:
        self._files, self._name, self._absent = files, name, absent
        self.size = files.count(name)
        self.names: tuple[str, ...] = tuple(SCHEMAS[name].names)
        self._coded: dict[str, CodedColumn] = {}
        self._cells: dict[str, CellOf] = {}
        self.coded("operating_point")

    def cell(self, name: str, row: int) -> Any:
        """The value in a column of a row, an operating point as one; an absent layer, count, text or flag is None."""
        return self.cells_of(name)(row)

    def cells_of(self, name: str) -> CellOf:
        """What gives the plain value of any row of a column."""
        if name not in self._cells:
            self._cells[name] = self._read_cells(name)
        return self._cells[name]

    def coded(self, name: str) -> CodedColumn:
        """A column of texts, operating points or layers as numbers; the last of its values is None."""
        if name not in self._coded:
            words_of = {"operating_point": operating_point}.get(name)
            self._coded[name] = self._files.readable_column(
                self._name, name, lambda column: coded_column(column, words_of)
            )
        return self._coded[name]

    def present(self, name: str) -> NDArray[np.bool_]:
        """Which rows have a value in a column, [rows]; NaN is one."""
        column = self._files.readable_column(self._name, name, lambda column: column.is_valid())
        return np.asarray(column.to_numpy(), dtype=bool)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """A column of numbers, [rows]; NaN where there is none."""
        return np.asarray(self._files.readable_column(self._name, name, pa.ChunkedArray.to_numpy), dtype=np.float64)

    def positions_where(self, wanted: Mapping[str, Sequence[Any]]) -> NDArray[np.int64]:
        """The rows that have one of some values in each of some columns, in the order of the file."""
        kept = np.ones(self.size, dtype=bool)
        for name, values in wanted.items():
            kept &= self.coded(name).among(values)
        return np.flatnonzero(kept)

    def index(self, names: Sequence[str]) -> KeyIndex:
        """Rows by their values in some columns."""
        return KeyIndex([self.coded(name) for name in names])

    def distinct(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """The different values of some columns together, in the order in which they first appear."""
        values = [self.cells_of(name) for name in names]
        firsts = self.index(names).first_positions()
        return [tuple(value(row) for value in values) for row in firsts.tolist()]

    def _read_cells(self, name: str) -> CellOf:
        if name in FEW_NUMBERS or pa.types.is_string(SCHEMAS[self._name].field(name).type):
            return coded_cells(self.coded(name))
        absent = self._absent
        return self._files.readable_column(self._name, name, lambda column: number_cells(column, absent))
