"""A run whose arrays all lie in temporary files writes the same results as one in memory."""

from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.scoring import set_aside
from exitbench.benchmarks.statistics import resampled_curves
from exitbench.cache import synthetic_cache
from tests.support.page_runs import suite

pytestmark = pytest.mark.long


def test_results_are_the_same_bytes_wherever_arrays_lie(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = synthetic_cache(tmp_path / "cache", rows=150, layers=4, classes=3, width=4, compact=True)
    asked = suite([cache], ["deebert", "pcee[patience=1|2]", "calibrated"], deals=2)
    in_memory = run_suite(asked, tmp_path / "memory").path
    monkeypatch.setattr(set_aside, "SHARE", 1 << 50)
    monkeypatch.setattr(resampled_curves, "FEW_SHARE", 1 << 50)
    aside = set_aside.set_aside
    monkeypatch.setattr(aside, "file", None)
    in_files = run_suite(asked, tmp_path / "files").path
    assert aside.file is not None and aside.file.used > 100_000
    names = sorted(path.name for path in in_memory.glob("*.parquet"))
    assert "samples.parquet" in names and "results.parquet" in names
    for name in names:
        assert (in_files / name).read_bytes() == (in_memory / name).read_bytes(), name
