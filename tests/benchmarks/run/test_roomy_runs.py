"""A run whose arrays all lie in temporary files, and are made a few at a time, writes the same results."""

from collections import Counter
from pathlib import Path

import pytest

from exitbench.benchmarks.arrays import blockwise, scratch_space
from exitbench.benchmarks.replay import exit_events, trade_off_curve
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.statistics.resampling import sample_weights
from exitbench.cache import synthetic_cache
from exitbench.memory_budget import memory_budget
from tests.support.page_runs import suite

pytestmark = pytest.mark.long


def test_results_are_the_same_bytes_wherever_arrays_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=150, layers=4, classes=3, width=4, compact=True, metric="f1")
    asked = suite([cache], ["deebert", "pabee", "pcee[patience=1|2]", "calibrated"], deals=2)
    in_memory = run_suite(asked, tmp_path / "memory").path
    made = Counter[int]()
    count = scratch_space.mappings.count
    monkeypatch.setattr(scratch_space.mappings, "count", lambda size: (made.update([size]), count(size)))
    monkeypatch.setattr(scratch_space, "SHARE", memory_budget() // 500)  # what has a number for each sample
    monkeypatch.setattr(scratch_space, "BLOCK", 37)
    monkeypatch.setattr(scratch_space, "LOOKED", 1 << 20)  # pages are given back after every ten arrays or so
    monkeypatch.setattr(scratch_space, "HELD", 1 << 20)
    monkeypatch.setattr(blockwise, "SORTED", 1 << 40)
    for module in (exit_events, trade_off_curve):
        monkeypatch.setattr(module, "FEW", 0)
    monkeypatch.setattr(sample_weights, "FEW_SHARE", 1 << 50)
    monkeypatch.setattr(sample_weights, "SPARSE_BLOCK", 1 << 12)
    in_files = run_suite(asked, tmp_path / "files").path
    assert made.total() > 5_000
    names = sorted(path.name for path in in_memory.glob("*.parquet"))
    assert "samples.parquet" in names and "results.parquet" in names
    for name in names:
        assert (in_files / name).read_bytes() == (in_memory / name).read_bytes(), name
