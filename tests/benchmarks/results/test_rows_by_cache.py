"""Rows of one cache are read without those of the others, whatever the file says of its row groups."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from exitbench.benchmarks.results.files import table_in_pieces, write_table
from exitbench.benchmarks.results.rows_by_cache import AHEAD, RowsByCache
from exitbench.benchmarks.results.schema import SCHEMAS, columns_table


def units_of(caches: int, rows: int = 3) -> list[pa.Table]:
    """Risk curves of two signals on each of some caches, as units leave them."""
    return [
        columns_table(
            "risk_coverage",
            {"cache": f"c{number:03}", "signal": signal, "protocol": signal, "risk": [float(number)] * rows},
            rows,
        )
        for number in range(caches)
        for signal in ("a", "b")
    ]


def written(path: Path, tables: list[pa.Table], **options: object) -> Path:
    """A file with a row group for every table."""
    with pq.ParquetWriter(path, SCHEMAS["risk_coverage"], **options) as writer:
        for table in tables:
            writer.write_table(table)
    return path


@pytest.mark.parametrize(
    "layout", ("a group for each unit", "no statistics", "one group", "groups of two caches and a half")
)
def test_the_rows_of_a_cache_are_those_that_a_search_of_the_file_finds(layout: str, tmp_path: Path) -> None:
    units = units_of(7)
    if layout == "one group":
        units = [pa.concat_tables(units).combine_chunks()]
    elif layout == "groups of two caches and a half":
        units = [pa.concat_tables(units).slice(start, 15).combine_chunks() for start in range(0, 42, 15)]
    path = written(tmp_path / "risk_coverage.parquet", units, write_statistics=layout != "no statistics")
    whole, rows = pq.read_table(path), RowsByCache(path)
    for cache in [f"c{number:03}" for number in (3, 0, 6, 3)]:
        expected = [row for row in whole.to_pylist() if row["cache"] == cache]
        assert rows.of(cache).to_pylist() == expected != []
    assert rows.of("none").to_pylist() == []
    assert rows.words("signal") == {f"c{number:03}": {"a", "b"} for number in range(7)}


def test_of_many_caches_only_those_that_are_asked_for_and_the_next_few_are_read(tmp_path: Path) -> None:
    caches = 200
    path = written(tmp_path / "risk_coverage.parquet", units_of(caches))
    rows = RowsByCache(path)
    rows.of("c150")
    assert rows.rows_read == 6
    order = [f"c{number:03}" for number in range(caches)]
    in_order = RowsByCache(path, order)
    for cache in order[:20]:
        assert set(in_order.of(cache)["cache"].to_pylist()) == {cache}
    assert in_order.rows_read == 2 * AHEAD * 6 < 6 * caches / 5, "each once, however many are asked for in this order"


def test_a_file_without_rows_has_none_of_any_cache(tmp_path: Path) -> None:
    for number, tables in enumerate(([], [SCHEMAS["risk_coverage"].empty_table()])):
        rows = RowsByCache(written(tmp_path / f"{number}.parquet", tables))
        assert rows.of("c000").num_rows == 0 and rows.words("signal") == {}


@pytest.mark.parametrize("sizes", ((), (3,), (1, 2, 3, 4), (12,), (4, 8, 1), (35, 0, 6, 19)))
def test_a_table_in_pieces_has_the_bytes_of_the_whole(
    sizes: tuple[int, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exitbench.benchmarks.results.files.ROW_GROUP", 10)
    units = [columns_table("pairs", {"cache": f"c{n}", "n": list(range(n))}, n) for n in sizes]
    write_table(tmp_path / "whole.parquet", pa.concat_tables([SCHEMAS["pairs"].empty_table(), *units]))
    with table_in_pieces(tmp_path / "pieces.parquet", "pairs") as add:
        for unit in units:
            add(unit)
    assert (tmp_path / "pieces.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()
    assert pq.read_metadata(tmp_path / "pieces.parquet").num_row_groups == max(1, -(-sum(sizes) // 10))


def test_a_table_in_pieces_is_there_when_all_of_it_is(tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="stopped"), table_in_pieces(tmp_path / "pairs.parquet", "pairs") as add:
        add(columns_table("pairs", {"cache": "c"}, 1))
        raise KeyError("stopped")
    assert list(tmp_path.iterdir()) == []
