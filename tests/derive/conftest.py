from pathlib import Path

import pytest

from exitbench.cache import Cache, synthetic_cache


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("derive")


@pytest.fixture(scope="session")
def train(folder: Path) -> Cache:
    """A calibration cache: 4 layers, 3 classes, two shards."""
    path = folder / "net-calibration"
    synthetic_cache(
        path, rows=150, layers=4, classes=3, width=6, shard_rows=100, split="calibration", feature_dtype="float32"
    )
    return Cache(path)


@pytest.fixture(scope="session")
def source(folder: Path) -> Cache:
    """Other rows of the same network, three shards."""
    path = folder / "net-dev"
    synthetic_cache(path, rows=90, layers=4, classes=3, width=6, shard_rows=40, feature_dtype="float32")
    return Cache(path)
