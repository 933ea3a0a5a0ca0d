"""Two small runs that share two caches of one task on the same rows, and a third that only the second has."""

from __future__ import annotations

from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.cache import synthetic_cache
from tests.support.page_runs import once, suite
from tests.support.table_runs import ONE

FIRST = ("deebert", "right-tool", "cap[alpha=0.1|1]")
SECOND = ("right-tool", "margin", "e-lang", "cap[alpha=10]")


def two_runs(factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Runs ``first`` and ``second``, in-sample, near 1.5 times the speed."""

    def build(folder: Path) -> None:
        shared = [
            synthetic_cache(folder / "one", rows=80, layers=3, classes=3, width=8, task="t", model="a", seed=1),
            synthetic_cache(folder / "two", rows=80, layers=3, classes=3, width=8, task="t", model="b", seed=2),
        ]
        own = synthetic_cache(folder / "own", rows=90, layers=3, width=8, task="u", model="a", seed=3, metric="f1")
        asked = {**ONE, "layers": (1,), "speed_ups": (1.5,), "primary_speed_up": 1.5, "losses": (), "resamples": 5}
        run_suite(suite(shared, FIRST, name="first", **asked), folder / "first")
        run_suite(suite([*shared, own], SECOND, name="second", **asked), folder / "second")

    folder = once(factory, "joint", build)
    return folder / "first", folder / "second"
