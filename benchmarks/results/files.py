"""The result files of a run: written whole or not at all, read as tables and rows."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from exitbench.atomic_files import whole_file, write_text
from exitbench.benchmarks.results.coded_columns import coded_column
from exitbench.benchmarks.results.key_index import KeyIndex
from exitbench.benchmarks.results.record_schema import record_problem
from exitbench.benchmarks.results.rows_by_cache import RowsByCache
from exitbench.benchmarks.results.schema import ACROSS, KEY, SCHEMAS, Row, plain_values, rows_of
from exitbench.benchmarks.results.vocabulary import RESULTS_SCHEMA
from exitbench.errors import InputError, one_line

if TYPE_CHECKING:
    import pandas as pd


Kind = TypeVar("Kind")

GROUP_ROWS = 1 << 18
"""Rows of units' tables that are written, and joined, together: with all their texts some hundred megabytes."""


ROW_GROUP = 1 << 20
"""Rows of a result file that are compressed, and read, together."""


def read_parquet(path: Path) -> pa.Table:
    """A parquet file as a table; pyarrow's own ``read_table`` loads what reads whole folders first."""
    with pq.ParquetFile(path) as file:
        # pyarrow 18 does not read a file without row groups.
        return file.read() if file.num_row_groups else file.schema_arrow.empty_table()


def write_table(path: Path, table: pa.Table, level: int | None = None) -> None:
    """Write a parquet file whole or not at all; equal tables give equal bytes.

    A higher ``level`` of compression takes longer and makes files a little smaller, for those that are kept.
    """
    plain = table.replace_schema_metadata(None)
    with whole_file(path) as temporary:
        pq.write_table(plain, temporary, compression="zstd", compression_level=level, row_group_size=ROW_GROUP)


def write_part(path: Path, table: pa.Table) -> None:
    """Write a table that a later stage reads once and the run then removes: what makes files small only costs time."""
    pq.write_table(table.replace_schema_metadata(None), path, compression="none", write_statistics=False)


def write_parts(path: Path, name: str, tables: Iterable[pa.Table]) -> None:
    """The same with the rows of several tables of the named file, none of which need be there before it is written."""
    with pq.ParquetWriter(path, SCHEMAS[name], compression="none", write_statistics=False) as writer:
        for table in tables:
            writer.write_table(table.replace_schema_metadata(None), row_group_size=GROUP_ROWS)


def join_tables(path: Path, name: str, parts: Iterable[Path]) -> None:
    """Write the parquet files of units one after another into one, whole or not at all, never all of them in memory."""
    with whole_file(path) as temporary, pq.ParquetWriter(temporary, SCHEMAS[name], compression="zstd") as writer:
        for part in parts:
            for batch in pq.ParquetFile(part).iter_batches(GROUP_ROWS):
                writer.write_batch(batch)


def write_json(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON file whole or not at all."""
    write_text(path, json.dumps(record, indent=2, sort_keys=True, ensure_ascii=False) + "\n")


def check_unique(results: pa.Table) -> None:
    """Raise ValueError when two rows of ``results.parquet`` share a key: a defect, not a user's error."""
    columns = [coded_column(results[name]) for name in KEY]
    keys = KeyIndex(columns)
    firsts = keys.first_positions()
    if len(firsts) == len(results):
        return
    again = np.setdiff1d(np.arange(len(results)), firsts)
    double = [tuple(column.values[column.codes[row]] for column in columns) for row in again.tolist()]
    rows = sum(len(keys.positions(key)) for key in set(double))
    raise ValueError(f"{rows} rows share keys, the first: {dict(zip(KEY, double[0], strict=True))}")


@contextmanager
def table_in_pieces(path: Path, name: str) -> Iterator[Callable[[pa.Table], None]]:
    """A parquet file that is whole when the block ends, and what adds a table to its end.

    The bytes are those that :func:`write_table` makes of all tables together; no more than a row group is kept.
    """
    schema, kept = SCHEMAS[name], [SCHEMAS[name].empty_table()]

    with whole_file(path) as temporary, pq.ParquetWriter(temporary, schema, compression="zstd") as writer:

        def write(rows: int) -> None:
            together = pa.concat_tables(kept)
            writer.write_table(together.slice(0, rows), row_group_size=ROW_GROUP)
            kept[:] = [together.slice(rows)]

        def add(table: pa.Table) -> None:
            kept.append(table.replace_schema_metadata(None))
            while sum(part.num_rows for part in kept) > ROW_GROUP:
                write(ROW_GROUP)

        yield add
        write(ROW_GROUP)


@dataclass(frozen=True)
class RunFiles:
    """A finished or incomplete run on disk, read lazily as pandas frames."""

    path: Path

    @property
    def record(self) -> dict[str, Any]:
        """``run.json``; raises InputError when the folder holds no run."""
        file = self.path / "run.json"
        if not file.is_file():
            raise InputError(f"{self.path} holds no run: expected run.json (an interrupted run has none yet)")
        try:
            record: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        except (ValueError, RecursionError) as error:
            raise InputError(f"{file}: expected JSON, found something else ({one_line(error)})") from None
        if not isinstance(record, dict):
            raise InputError(f"{file}: expected a JSON object, found {type(record).__name__}")
        if record.get("schema") != RESULTS_SCHEMA:
            raise InputError(
                f"{self.path} has result files of schema {record.get('schema')}, this version of exitbench writes and "
                f"reads {RESULTS_SCHEMA}; run again"
            )
        problem = record_problem(record)
        if problem:
            raise InputError(f"{file} is not the record of a run: {problem}")
        return record

    def table(self, name: str) -> pd.DataFrame:
        """One of :data:`SCHEMAS` as a frame; raises InputError when it is missing or has other columns."""
        frame: pd.DataFrame = self._read(name).to_pandas()
        return frame

    def columns(self, name: str) -> pa.Table:
        """One of :data:`SCHEMAS` as its columns lie in the file; raises InputError like :meth:`table`."""
        return self._read(name)

    def by_cache(self, name: str, order: Sequence[str] = ()) -> RowsByCache:
        """One of :data:`SCHEMAS` for whoever wants the rows of single caches, likely in this ``order``.

        Raises InputError like :meth:`table`.
        """
        self.require(name)
        return RowsByCache(self.path / f"{name}.parquet", order)

    def samples_at(self, protocol: str, point: str) -> pa.Table:
        """The rows of ``samples.parquet`` of one protocol and operating point; raises InputError like :meth:`table`.

        Read piece by piece: the whole file may be far larger than what is wanted of it.
        """
        self._read("samples", pq.read_schema)
        wanted = {"protocol": protocol, "operating_point": point}
        parts = [SCHEMAS["samples"].empty_table()]
        with pq.ParquetFile(self.path / "samples.parquet") as file:
            try:
                for batch in file.iter_batches(1 << 18):
                    columns = [batch.column(name) for name in wanted]
                    kept = [pc.equal(column, text) for column, text in zip(columns, wanted.values(), strict=True)]
                    parts.append(pa.Table.from_batches([batch]).filter(pc.and_(*kept)))
            except (ValueError, OSError) as error:
                raise InputError(f"{self.path / 'samples.parquet'}: cannot be read ({one_line(error)})") from None
        return pa.concat_tables(parts)

    def count(self, name: str) -> int:
        """How many rows one of :data:`SCHEMAS` has; raises InputError like :meth:`table`."""
        self.require(name)
        rows: int = pq.read_metadata(self.path / f"{name}.parquet").num_rows
        return rows

    def rows(self) -> list[Row]:
        """``results.parquet`` as plain rows; raises InputError like :meth:`table`."""
        return self.readable("results", rows_of)

    def readable(self, name: str, read: Callable[[pa.Table], Kind]) -> Kind:
        """What ``read`` makes of one of :data:`SCHEMAS`; raises InputError like :meth:`table`, and for odd values."""
        table = self._read(name)
        try:
            return read(table)
        except ValueError as error:
            raise InputError(f"{self.path / f'{name}.parquet'}: {one_line(error)}") from None

    def readable_column(self, name: str, column: str, read: Callable[[pa.ChunkedArray], Kind]) -> Kind:
        """What ``read`` makes of a column of one of :data:`SCHEMAS`, texts as a dictionary; raises InputError."""
        texts = [column] if pa.types.is_string(SCHEMAS[name].field(column).type) else None

        def column_of(file: Path) -> pa.Table:
            with pq.ParquetFile(file, read_dictionary=texts) as parquet:
                return parquet.read([column]) if parquet.num_row_groups else parquet.schema_arrow.empty_table()

        self.require(name)
        file = self.path / f"{name}.parquet"
        try:
            return read(column_of(file)[column])
        except (ValueError, OSError) as error:
            raise InputError(f"{file}: {one_line(error)}") from None
        finally:
            pa.default_memory_pool().release_unused()

    def plain_rows(self, name: str) -> list[dict[str, Any]]:
        """One of :data:`SCHEMAS` as plain values, an absent number as NaN, anything else that is absent as None.

        Raises InputError like :meth:`table`.
        """
        table = self._read(name)
        columns = [
            column.to_numpy().tolist() if pa.types.is_floating(column.type) else plain_values(column)
            for column in table.columns
        ]
        names = table.column_names  # a new list at every look
        return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]

    def across(self) -> list[dict[str, Any]]:
        """The rows of ``across.parquet``; none for a run that was kept from before there were any."""
        if not (self.path / "across.parquet").exists():
            return []
        rows: list[dict[str, Any]] = self._read("across").to_pylist()
        return rows

    def require(self, *names: str) -> None:
        """Raise InputError like :meth:`table` for files that are missing, cut or foreign; their rows are not read."""
        for name in names:
            self._read(name, pq.read_schema)

    def _read(self, name: str, read: Callable[[Path], Any] = read_parquet) -> Any:
        """What ``read`` makes of a file, its schema or its table; raises InputError where the columns are others."""
        file = self.path / f"{name}.parquet"
        if not file.is_file():
            raise InputError(f"{self.path} holds no {name}.parquet")
        try:
            content = read(file)
        except (ValueError, OSError) as error:
            raise InputError(f"{file}: expected a parquet file, found something else ({one_line(error)})") from None
        schema = content if isinstance(content, pa.Schema) else content.schema
        if not schema.equals(ACROSS if name == "across" else SCHEMAS[name]):
            raise InputError(f"{file} has other columns than this version of exitbench writes; run again")
        return content

    @property
    def results(self) -> pd.DataFrame:
        return self.table("results")
