"""Six gigabytes of calibration rows are fitted in one and a half: a process for every signal that learns."""

from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.caches import cache_size
from exitbench.benchmarks.speed.harness.fit_memory import (
    MOST,
    SHARDS,
    FitMemory,
    fit_memory,
    fitted_texts,
    markdown_table,
    read_store,
    six_gigabytes,
    write_store,
)
from exitbench.cache import synthetic_cache

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all signals: the caches are made once."""
    return tmp_path_factory.mktemp("fit-memory")


@pytest.mark.slow
@pytest.mark.parametrize("classes", SHARDS)
@pytest.mark.parametrize("text", fitted_texts())
def test_a_fit_on_six_gigabytes_needs_one_and_a_half(text: str, classes: int, folder: Path) -> None:
    cache = six_gigabytes(folder, classes)
    assert cache_size(cache) > 6e9
    seen = fit_memory(text, cache)
    assert seen.parameters > 0
    assert seen.allocated < seen.resident < MOST, f"{seen.resident / 1e9:.2f} GB"


@pytest.mark.long
def test_what_a_process_allocates_is_seen_beside_what_it_has_mapped(tmp_path: Path) -> None:
    """Python with torch needs a tenth of a gigabyte at least, and its libraries are mapped files."""
    seen = fit_memory("calibrated", synthetic_cache(tmp_path / "c", rows=300, layers=3, width=4))
    assert 0.05e9 < seen.allocated < seen.resident < MOST
    assert seen.parameters == 4, "a slope and an intercept at two internal layers"
    assert seen.seconds > 0.2


@pytest.mark.long
def test_a_fit_that_fails_says_why(tmp_path: Path) -> None:
    compact = synthetic_cache(tmp_path / "c", rows=300, layers=3, width=4, compact=True)
    with pytest.raises(RuntimeError, match=r"^edr: .*signal edr reads features, which cache c does not hold"):
        fit_memory("edr", compact)


def test_what_was_measured_comes_back_and_a_peak_above_the_limit_is_bold(tmp_path: Path) -> None:
    measured = {"2": {"b": FitMemory(1_499_999_999, 900_000_000, 3.0, 7), "a": FitMemory(1_500_000_000, 10**9, 1.0, 2)}}
    write_store(measured, tmp_path / "kept.json")
    assert read_store(tmp_path / "kept.json") == measured
    lines = markdown_table(measured).splitlines()
    assert lines[2] == "| `a` | **1.50 GB** | 1.00 GB | not yet | not yet |"
    assert lines[3].startswith("| `b` | 1.50 GB | 0.90 GB |")
