"""One evaluation of a small cache, against whose numbers several files hold their oracles."""

import pytest

from exitbench.benchmarks.api import evaluate
from exitbench.cache import synthetic_cache
from tests.support.evaluations import ASKED, SIGNALS


@pytest.fixture(scope="session")
def path(tmp_path_factory):
    root = tmp_path_factory.mktemp("evaluate")
    return synthetic_cache(root / "c", rows=150, layers=5, width=8, metric="f1", shard_rows=64, compact=True)


@pytest.fixture(scope="session")
def evaluation(path):
    return evaluate(path, SIGNALS, **ASKED)
