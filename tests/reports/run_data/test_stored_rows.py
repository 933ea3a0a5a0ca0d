"""Rows that are made when they are read are those that were made at once."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest

from exitbench.reports.run_data import finished_run, provenance
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.key_index import KeyIndex
from exitbench.reports.run_data.provenance import SourceRows
from exitbench.reports.run_data.stored_rows import StoredPairs, StoredRows
from tests.support.many_caches import run_many
from tests.support.page_runs import once


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1 model x 1 task x 5 seeds, a grid among the signals."""
    return once(tmp_path_factory, "stored-rows", _made) / "run"


def _made(folder: Path) -> None:
    run_many(folder, 1, 1, ("deebert", "f-pabee[patience=1|2]", "margin"))


def same(one: Any, other: Any) -> bool:
    """Equal and of one type; NaN is NaN."""
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    return type(one) is type(other) and bool(one == other)


@pytest.mark.long
def test_rows_and_pairs_of_a_large_run_are_those_of_a_small_one(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    small = FinishedRun(path)
    rows, pairs, origins = small.rows, small.pair_rows, SourceRows(small)._positions
    monkeypatch.setattr(finished_run, "MANY", 0)
    monkeypatch.setattr(provenance, "MANY", 0)
    large = FinishedRun(path)
    assert isinstance(large.rows, StoredRows) and isinstance(large.pair_rows, StoredPairs)
    assert list(large.rows) == list(rows) and len(large.rows) == len(rows) > 500
    for key, row in rows.items():
        assert all(map(same, row, large.rows[key])), key
    with monkeypatch.context() as patch:
        patch.setattr(StoredRows, "__getitem__", None)  # reading all of them in order searches for none
        for row, stored in zip(rows.values(), large.rows.values(), strict=True):
            assert all(map(same, row, stored))
    assert len(large.pair_rows) == len(pairs) > 50
    for one, other in zip(pairs, large.pair_rows, strict=True):
        assert list(one) == list(other) and all(same(one[name], other[name]) for name in one)
    assert all(same(one, other) for one, other in zip(pairs[-1].values(), large.pair_rows[-1].values(), strict=True))
    positions = SourceRows(large)._positions
    for name, expected in origins.items():
        assert all(positions[name][key] == expected[key] for key in expected), name
    with pytest.raises(KeyError):
        large.rows["no such key",]
    assert large.rows.get(("no such key",)) is None
    with pytest.raises(IndexError):
        large.pair_rows[len(pairs)]


class Alike(str):
    """A text whose hash is that of all others."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        return str.__eq__(self, str(other))


def test_keys_of_one_hash_are_told_apart_and_the_last_of_equal_ones_counts() -> None:
    keys = [(Alike(text),) for text in ("a", "b", "c", "b")]
    index = KeyIndex(iter(keys), keys.__getitem__)
    assert [index[key] for key in keys] == [0, 3, 2, 3]
    with pytest.raises(KeyError):
        index[Alike("d"),]
