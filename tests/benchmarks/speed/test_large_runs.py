"""Runs of every signal with many classes and many layers: what is kept of them, and the tables made of that."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from exitbench.benchmarks.scoring.fit_cache import VARIABLE
from exitbench.benchmarks.speed.harness.fit_memory import FitMemory
from exitbench.benchmarks.speed.harness.large_runs import (
    SIZES,
    LargeRun,
    Seen,
    large_run,
    markdown_table,
    one_pass,
    read_store,
    write_store,
)
from exitbench.benchmarks.speed.harness.run_scale import Size
from exitbench.signals import load_registry

SMALL = Size(rows=300, layers=4, classes=5, width=16, outputs=("lte",))
WHOLE = LargeRun(100_000, resident=2_100_000_000, allocated=1_990_000_000, seconds=14.9, read=10**8, one_pass=0.02)
TENTH = replace(WHOLE, rows=10_000)
FIT = FitMemory(900_000_000, 800_000_000, 31.4, 7)
MEASURED = {"b": Seen(WHOLE), "a": Seen(TENTH, FIT), "c": Seen(fit=FIT)}


def test_what_was_measured_comes_back(tmp_path: Path) -> None:
    write_store({"layers": MEASURED}, tmp_path / "kept.json")
    assert read_store(tmp_path / "kept.json") == {"layers": MEASURED}
    assert read_store(tmp_path / "none.json") == {}


def test_a_tenth_of_the_rows_what_was_not_run_and_what_is_above_the_budget_are_bold() -> None:
    lines = markdown_table(MEASURED, SIZES["layers"]).splitlines()
    assert lines[2:] == [
        "| `a` | **10,000** | 14.9 s | 20 ms | 745 | 1.99 GB | **2.10 GB** | 31 s, 0.80 GB |",
        "| `b` | 100,000 | 14.9 s | 20 ms | 745 | 1.99 GB | **2.10 GB** |  |",
        "| `c` | **not run** |  |  |  |  |  | 31 s, 0.80 GB |",
    ]
    assert {line.count("|") for line in lines} == {9}


@pytest.mark.parametrize(
    ("inputs", "bytes_a_row"),
    [
        (frozenset({"ids"}), 5 * 4),
        (frozenset({"logits", "offset_norm", "head"}), 5 * 4 + 4),
        (frozenset({"logits", "features"}), 5 * 4 + 16 * 2),
        (frozenset({"outputs:lte"}), 5 * 4 + 4),
    ],
)
def test_a_pass_is_over_the_logits_and_whatever_else_is_declared(
    inputs: frozenset[str], bytes_a_row: int, tmp_path: Path
) -> None:
    read, seconds = one_pass(SMALL.cache(tmp_path), inputs)
    assert read == 300 * 4 * bytes_a_row
    assert 0 <= seconds < 1


def test_every_signal_is_in_both_tables() -> None:
    names = set(load_registry().signals)
    assert {name: set(rows) for name, rows in read_store().items()} == dict.fromkeys(SIZES, names)
    for name, rows in read_store().items():
        whole = SIZES[name].rows
        assert all(seen.run is not None or seen.fit is not None for seen in rows.values())
        assert {seen.run.rows for seen in rows.values() if seen.run is not None} <= {whole, whole // 10}


@pytest.mark.long
@pytest.mark.process
def test_a_run_is_measured_with_nothing_fitted_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the user's fit cache holds; Python with its libraries needs a tenth of a gigabyte at least."""
    monkeypatch.setenv(VARIABLE, os.fspath(tmp_path / "mine"))
    monkeypatch.setattr("exitbench.benchmarks.speed.harness.large_runs.RESAMPLES", 20)
    run = large_run(SMALL, "output", tmp_path)
    assert (run.rows, run.read) == (300, 300 * 4 * 24)
    assert 0.05e9 < run.allocated < run.resident and run.seconds > 0.2
    assert large_run(SMALL, "she", tmp_path).rows == 300
    assert not (tmp_path / "mine").exists()
    assert any((tmp_path / "out" / "fits").iterdir())
