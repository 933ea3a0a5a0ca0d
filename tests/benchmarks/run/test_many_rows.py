"""Rows without a limit: what a run holds is bounded by the memory budget, and its time grows as the rows do."""

import itertools
from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.run_scale import Size, run_peaks

BUDGET = 2e9
"""Bytes of the default memory budget, which the whole process keeps to on 4,000,000 rows."""

pytestmark = pytest.mark.process


@pytest.mark.slow
def test_time_grows_as_the_rows_and_memory_keeps_to_the_budget(tmp_path: Path) -> None:
    seconds = []
    for rows in (10_000, 40_000, 160_000, 640_000, 2_560_000):
        cache = Size(rows=rows, layers=3).cache(tmp_path)
        peaks = run_peaks(cache, "right-tool", tmp_path / "out", ["--resamples", "200"])
        assert peaks.allocated < BUDGET, f"{rows} rows: {peaks.allocated / 1e9:.2f} GB"
        seconds.append(peaks.seconds)
    ratios = [more / fewer for fewer, more in itertools.pairwise(seconds)]
    assert max(ratios) <= 5, ratios


@pytest.mark.slow
def test_six_hundred_thousand_rows_with_a_thousand_resamples_finish(tmp_path: Path) -> None:
    cache = Size(rows=600_000).cache(tmp_path)
    assert run_peaks(cache, "right-tool", tmp_path / "out", ["--resamples", "1000"]).allocated < BUDGET


@pytest.mark.long
def test_a_tenth_of_the_memory_holds_less_and_writes_the_same_bytes(tmp_path: Path) -> None:
    cache = Size(rows=60_000, layers=4).cache(tmp_path)
    held, written = [], []
    for memory in ("100MB", "1GB"):
        words = ["--resamples", "20", "--memory", memory]
        held.append(run_peaks(cache, "right-tool", tmp_path / memory, words).allocated)
        written.append((tmp_path / memory / "run" / "results.parquet").read_bytes())
    assert written[0] == written[1]
    assert held[0] < held[1] - 2e6, f"{held[0] / 1e6:.0f} MB of {held[1] / 1e6:.0f} MB"
