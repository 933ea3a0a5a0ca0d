"""Rows that are made when they are read are those that were made at once."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.benchmarks.results import key_index
from exitbench.benchmarks.results.coded_columns import CodedColumn
from exitbench.benchmarks.results.key_index import KeyIndex
from exitbench.benchmarks.results.schema import PAIR_KEY
from exitbench.reports.page.page import write_page
from exitbench.reports.run_data import finished_run
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.stored_rows import COLUMN, StoredPairs, StoredRows
from exitbench.reports.write_views import write_views
from tests.support.many_caches import run_many
from tests.support.page_runs import once


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 model x 1 task x 5 seeds, a grid among the signals."""
    return once(tmp_path_factory, "stored-rows", _made) / "run"


def _made(folder: Path) -> None:
    run_many(folder, 1, 1, ("deebert", "f-pabee[patience=1|2]", "margin"))


@pytest.fixture
def large(path: Path, monkeypatch: pytest.MonkeyPatch) -> FinishedRun:
    """The run as one that is too large to be read at once."""
    monkeypatch.setattr(finished_run, "MANY", 0)
    run = FinishedRun(path)
    assert isinstance(run.rows, StoredRows) and isinstance(run.pair_rows, StoredPairs)
    return run


@pytest.fixture
def small(path: Path) -> FinishedRun:
    """The same run, whose rows are read at once."""
    run = FinishedRun(path)
    assert isinstance(run.rows, dict) and isinstance(run.pair_rows, list)
    return run


def same(one: Any, other: Any) -> bool:
    """Equal and of one type; NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


def all_same(some: Sequence[Any], others: Sequence[Any]) -> bool:
    """Whether two lists have the same rows, value by value; there are any."""
    return len(some) == len(others) > 0 and all(
        all(map(same, one, other)) for one, other in zip(some, others, strict=True)
    )


@pytest.mark.long
def test_rows_and_pairs_of_a_large_run_are_those_of_a_small_one(small: FinishedRun, large: FinishedRun) -> None:
    rows, pairs = small.rows, small.pair_rows
    assert list(large.rows) == list(rows) and len(large.rows) == len(rows) > 500
    for position, (key, row) in enumerate(rows.items()):
        assert all(map(same, row, large.rows[key])), key
        assert rows.position(key) == large.rows.position(key) == position
    assert all_same(list(rows.values()), list(large.rows.values()))
    assert len(large.pair_rows) == len(pairs) > 50
    for position, (pair, stored) in enumerate(zip(pairs, large.pair_rows, strict=True)):
        assert list(pair) == list(stored) and all(same(pair[name], stored[name]) for name in pair)
        pair_key = tuple(pair[name] for name in PAIR_KEY)
        assert pairs.position(pair_key) == large.pair_rows.position(pair_key) == position
    assert all(same(pairs[-1][name], large.pair_rows[-1][name]) for name in pairs[-1])
    with pytest.raises(KeyError):
        large.rows[("no such key",) * 11]
    assert large.rows.get(("no such key",) * 11) is None
    with pytest.raises(IndexError):
        large.pair_rows[len(pairs)]


@pytest.mark.long
def test_rows_are_picked_by_cache_column_and_value_as_a_search_of_all_picks_them(
    small: FinishedRun, large: FinishedRun
) -> None:
    every = list(small.rows.values())
    for run in (small, large):
        for cache in ("", run.caches[2].name):
            assert all_same([row for row in every if row.cache == cache], run.rows.of_cache(cache))
        assert not run.rows.of_cache("none")
        wanted = {"measure": ("dis", "accuracy"), "decisions": ("",)}
        picked = [row for row in every if row.measure in wanted["measure"] and not row.decisions]
        assert all_same(picked, list(run.rows.where(**wanted)))
        names = ("protocol", "signal", "parameters")
        assert run.rows.distinct(*names) == list(
            dict.fromkeys(tuple(getattr(row, name) for name in names) for row in every)
        )
        columns = {tuple(getattr(row, name) for name in COLUMN) for row in every}
        judged = 0
        for column in columns:
            asked = [row for row in every if row.best is not None and tuple(getattr(row, n) for n in COLUMN) == column]
            assert [row.key for row in asked] == [row.key for row in run.rows.compared(column)]
            judged += len(asked)
        assert judged > 20
        pairs = [pair for pair in small.pair_rows if pair["measure"] == "dis"]
        stored = list(run.pair_rows.where(measure=["dis"]))
        assert all_same([[*pair.values()] for pair in pairs], [[*pair.values()] for pair in stored])
        column = tuple(pairs[0][name] for name in COLUMN)
        together = [pair for pair in small.pair_rows if tuple(pair[name] for name in COLUMN) == column]
        assert all_same([[*p.values()] for p in together], [[*p.values()] for p in run.pair_rows.of_column(column)])


@pytest.mark.long
def test_the_views_of_a_large_run_are_byte_for_byte_those_of_a_small_one(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def views() -> dict[str, bytes]:
        write_views(FinishedRun(path))
        write_page([path], path / "report.html")
        return {
            str(file.relative_to(path)): file.read_bytes()
            for file in path.rglob("*.*")
            if file.suffix in (".html", ".md", ".csv", ".tex")
        }

    at_once = views()
    monkeypatch.setattr(finished_run, "MANY", 0)
    assert views() == at_once and "report.html" in at_once and len(at_once) > 5


@pytest.mark.parametrize("most", (2**62, 5), ids=("one number", "ranks where numbers grow"))
def test_keys_are_found_whole_and_by_their_beginning(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_index, "MOST", most)
    keys = [("a", 1, "x"), ("b", None, "x"), ("a", 2, "y"), ("b", None, "x"), ("a", 1, "y"), (None, 1, "x")]
    columns = []
    for number in range(3):
        values = [*dict.fromkeys(key[number] for key in keys if key[number] is not None), None]
        columns.append(CodedColumn(np.array([values.index(key[number]) for key in keys]), values))
    index = KeyIndex(columns)
    assert [index[key] for key in keys] == [0, 3, 2, 3, 4, 5], "of equal ones the last, as in a dictionary"
    for beginning in ((), ("a",), ("b",), ("a", 1), ("b", None), (None,), *keys):
        expected = [place for place, key in enumerate(keys) if key[: len(beginning)] == beginning]
        assert index.positions(beginning).tolist() == expected, beginning
    assert index.first_positions().tolist() == [0, 1, 2, 4, 5]
    for missing in (("c", 1, "x"), ("a", 3, "x"), ("a", None, "x"), ("b", 1, "y"), (None, 2, "x")):
        with pytest.raises(KeyError):
            index[missing]
        assert not len(index.positions(missing))
