"""Rows without a limit: what a run holds is bounded by the memory budget, and its time grows as the rows do."""

import itertools
import shutil
from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.run_scale import Size, run_peaks

BUDGET = 2e9
"""Bytes of the default memory budget, which the whole process keeps to."""

pytestmark = pytest.mark.process


@pytest.mark.slow
@pytest.mark.parametrize("sizes", [(10_000, 40_000, 160_000, 640_000, 2_560_000), (1_000_000, 4_000_000)])
def test_time_grows_as_the_rows_and_memory_keeps_to_the_budget(tmp_path: Path, sizes: tuple[int, ...]) -> None:
    """With 12 layers and 1,000 resamples; the memory is all that is resident, pages of mapped files included."""
    seconds = []
    for rows in sizes:
        cache = Size(rows=rows).cache(tmp_path)
        peaks = run_peaks(cache, "right-tool", tmp_path / "out", ["--resamples", "1000"])
        assert peaks.resident < BUDGET, f"{rows} rows: {peaks.resident / 1e9:.2f} GB"
        seconds.append(peaks.seconds)
        shutil.rmtree(cache)
    ratios = [more / fewer for fewer, more in itertools.pairwise(seconds)]
    assert max(ratios) <= 5, ratios


@pytest.mark.long
def test_what_a_run_holds_is_seen_and_a_failure_is_told(tmp_path: Path) -> None:
    """Python with its libraries needs a tenth of a gigabyte at least."""
    cache = Size(rows=300, layers=3).cache(tmp_path)
    assert Size(rows=300, layers=3).cache(tmp_path) == cache, "it is made once"
    peaks = run_peaks(cache, "right-tool", tmp_path / "out", ["--resamples", "20"])
    assert 0.05e9 < peaks.allocated < peaks.resident < BUDGET and peaks.seconds > 0.2
    with pytest.raises(RuntimeError, match=r"no-such on rows-300.*unknown signal"):
        run_peaks(cache, "no-such", tmp_path / "out")
