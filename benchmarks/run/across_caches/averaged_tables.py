"""What averages are made of, kept while the tables of units are put together: a few columns of them, or their rows.

No more than one unit's table is in memory as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.compute as pc  # type: ignore[import-untyped]

from exitbench.benchmarks.results.coded_columns import RowsInColumns, with_codes
from exitbench.benchmarks.results.files import check_unique, read_parquet
from exitbench.benchmarks.results.schema import SCHEMAS, Row, rows_of
from exitbench.benchmarks.results.vocabulary import PER_LAYER

Layers = Mapping[str, Sequence[int]]
"""By cache the layers at which DIS is averaged: those of its tables."""


def joined_results(parts: Iterable[Path], layers: Layers, add: Callable[[pa.Table], None]) -> list[Row]:
    """Give ``add`` the results of units one after another; those that averages are made of.

    Raises ValueError when two rows share a key.
    """
    rows: list[Row] = []
    for table in tables_of_caches(parts):
        check_unique(table)
        add(table)
        rows += rows_of(table.filter(averaged_rows(table, layers, ("", "randomised"))))
    return rows


def joined_pairs(parts: Iterable[Path], layers: Layers, add: Callable[[pa.Table], None]) -> Sequence[Mapping[str, Any]]:
    """The same with pairs, each of which is made when somebody reads it."""
    kept = []
    for part in parts:
        table = read_parquet(part)
        add(table)
        kept.append(with_codes(table.filter(averaged_rows(table, layers, ("", PER_LAYER)))))
    return RowsInColumns(SCHEMAS["pairs"], kept)


def tables_of_caches(parts: Iterable[Path]) -> Iterator[pa.Table]:
    """The results of one cache after another; those of a cache that was not compared lie in several parts."""
    kept: list[pa.Table] = []
    of: set[str] = set()
    for part in parts:
        table = read_parquet(part)
        caches = set(table["cache"].unique().to_pylist())
        if kept and not caches & of:
            yield pa.concat_tables(kept)
            kept, of = [], set()
        kept.append(table)
        of |= caches
    if kept:
        yield pa.concat_tables(kept)


def averaged_rows(table: pa.Table, layers: Layers, decisions: Sequence[str]) -> pa.Array:
    """Which rows of results or pairs averages are made of: those without a layer, and DIS at the tables' layers."""
    chosen, dis = pc.is_null(table["layer"]), pc.equal(table["measure"], "dis")
    caches_with: dict[tuple[int, ...], list[str]] = {}
    for cache, numbers in layers.items():
        caches_with.setdefault(tuple(numbers), []).append(cache)
    for numbers, caches in caches_with.items():  # not cache by cache: each is a pass over the whole table
        here = pc.is_in(table["layer"], value_set=pa.array(numbers, type=pa.int32()))
        theirs = pc.is_in(table["cache"], value_set=pa.array(caches, type=pa.string()))
        chosen = pc.or_(chosen, pc.and_(pc.and_(theirs, here), dis))
    return pc.and_(chosen, pc.is_in(table["decisions"], value_set=pa.array(decisions, type=pa.string())))
