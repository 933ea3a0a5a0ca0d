"""Units' tables are given on one after another, whole, and what averages are made of is what a search of all finds."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from exitbench.benchmarks.results.files import write_part
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row, rows_table, table_of
from exitbench.benchmarks.run.across_caches.averaged_tables import joined_pairs, joined_results

LAYERS = {"a": (1, 2), "b": (3,)}


def row(cache: str, signal: str, **changes: Any) -> Row:
    point, numbers = at_speed_up(2.0), dict.fromkeys(("value", "low", "high", "std_err"), 90.0)
    base = Row(cache, "model", "task", "dev", "cross-fit", signal, "", "accuracy", point, **numbers)
    return base._replace(**changes)


def rows_of_cache(cache: str, signal: str) -> list[Row]:
    """Rows that averages are made of, and rows that they are not."""
    dis = [row(cache, signal, measure="dis", layer=layer) for layer in (1, 2, 3)]
    return [
        row(cache, signal),
        row(cache, signal, decisions="randomised"),
        row(cache, signal, decisions="reached", measure="premature_rate"),
        row(cache, signal, decisions="per-layer"),
        row(cache, signal, layer=1, measure="exit_share"),
        *dis,
    ]


def written(folder: Path, tables: list[pa.Table]) -> list[Path]:
    paths = [folder / f"{number}.parquet" for number in range(len(tables))]
    for path, table in zip(paths, tables, strict=True):
        write_part(path, table)
    return paths


def test_results_without_a_layer_and_dis_at_the_layers_of_tables_are_averaged(tmp_path: Path) -> None:
    units = [rows_of_cache("a", "s"), rows_of_cache("a", "t"), rows_of_cache("b", "s")]  # a was not compared
    added: list[pa.Table] = []
    averaged = joined_results(written(tmp_path, [rows_table(unit) for unit in units]), LAYERS, added.append)
    assert pa.concat_tables(added).equals(rows_table(itertools.chain(*units)))
    assert [(found.cache, found.signal, found.decisions, found.layer) for found in averaged] == [
        (cache, signal, decisions, layer)
        for cache, signal in (("a", "s"), ("a", "t"), ("b", "s"))
        for decisions, layer in (("", None), ("randomised", None), *(("", layer) for layer in LAYERS[cache]))
    ]


@pytest.mark.parametrize("units", ([["s", "s"]], [["s"], ["s"]]), ids=("in one unit", "in two units of a cache"))
def test_a_key_that_two_rows_share_is_refused(units: list[list[str]], tmp_path: Path) -> None:
    tables = [rows_table([row("a", signal) for signal in signals]) for signals in units]
    with pytest.raises(ValueError, match="2 rows share keys"):
        joined_results(written(tmp_path, tables), LAYERS, lambda _table: None)


def test_pairs_are_read_as_plain_values_would_be(tmp_path: Path) -> None:
    base = {
        "cache": "a",
        "protocol": "cross-fit",
        "operating_point": "speed_up=2",
        "measure": "accuracy",
        "layer": None,
    }
    base |= {"signal_a": "s", "signal_b": "t", "difference": 1.5, "std_err": float("inf"), "p_value": None, "n": 7}
    kept = [{**base, "decisions": ""}, {**base, "decisions": "per-layer"}, {**base, "layer": 2, "measure": "dis"}]
    kept[2]["decisions"] = ""
    left = [{**base, "decisions": "all"}, {**kept[2], "layer": 3}]
    tables = [table_of("pairs", [*kept, *left]), table_of("pairs", []), table_of("pairs", [{**kept[0], "cache": "b"}])]
    added: list[pa.Table] = []
    pairs = joined_pairs(written(tmp_path, tables), LAYERS, added.append)
    expected = [*tables[0].slice(0, 3).to_pylist(), *tables[2].to_pylist()]
    assert [dict(pair) for pair in pairs] == expected and len(pairs) == 4
    assert dict(pairs[-1]) == expected[-1] and [dict(pair) for pair in pairs[1:3]] == expected[1:3]
    assert pa.concat_tables(added).equals(pa.concat_tables(tables))
    assert len(joined_pairs([], LAYERS, added.append)) == 0
