from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A small cache with features, heads and three shards."""
    return synthetic_cache(tmp_path / "cache", rows=70, layers=4, classes=3, width=8, shard_rows=32)
