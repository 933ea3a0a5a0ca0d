"""A method of ``derive`` is fitted on six gigabytes in one and a half: a process for each."""

from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.caches import cache_size
from exitbench.benchmarks.speed.harness.derive_memory import STORE, derive_memory, method_texts
from exitbench.benchmarks.speed.harness.fit_memory import MOST, SHARDS, markdown_table, read_store, six_gigabytes
from exitbench.cache import synthetic_cache

DOCUMENT = Path(__file__).parents[2] / "docs" / "deriving.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One for all methods: the caches are made once."""
    return tmp_path_factory.mktemp("derive-memory")


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("classes", SHARDS)
@pytest.mark.parametrize("text", method_texts())
def test_a_method_fitted_on_six_gigabytes_needs_one_and_a_half(text: str, classes: int, folder: Path) -> None:
    train = six_gigabytes(folder, classes)
    assert cache_size(train) > 6e9
    seen = derive_memory(text, train, folder / f"shard-{classes}")
    assert seen.allocated < seen.resident < MOST, f"{seen.resident / 1e9:.2f} GB"


@pytest.mark.long
@pytest.mark.process
def test_what_a_derivation_holds_is_seen(tmp_path: Path) -> None:
    """Python with torch needs a tenth of a gigabyte at least, and its libraries are mapped files."""
    cache = synthetic_cache(tmp_path / "c", rows=300, layers=3, width=4)
    heads = derive_memory("heads", cache, cache)
    assert 0.05e9 < heads.allocated < heads.resident < MOST
    assert heads.seconds > 0.2
    assert list(tmp_path.iterdir()) == [cache], "what was derived is gone"
    with pytest.raises(RuntimeError, match=r"^etf: .*needs at least as many features as classes"):
        wide = synthetic_cache(tmp_path / "w", rows=300, layers=3, width=4, classes=5)
        derive_memory("etf", wide, wide)


def test_the_page_on_derived_caches_shows_what_was_measured() -> None:
    assert markdown_table(read_store(STORE), "method") in DOCUMENT.read_text(encoding="utf-8")
