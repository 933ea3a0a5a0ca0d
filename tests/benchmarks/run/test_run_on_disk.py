"""What is on the disk while a run goes on: nothing says complete before everything is there."""

import json
from pathlib import Path

import pytest
import torch

from exitbench import atomic_files
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite import Suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.executors.unit import work_and_sign

torch.set_num_threads(1)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    cache = synthetic_cache(tmp_path_factory.mktemp("caches") / "c", rows=60, layers=4, width=4, compact=True)
    return suite_of_caches([cache]).with_signals(("deebert",)).asking(protocols=("in-sample",), resamples=5)


def test_results_are_flushed_before_run_json_and_run_json_before_it_has_its_name(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    steps: list[tuple[str, Path]] = []

    class Recording(atomic_files.Disk):
        def flush(self, path: Path) -> None:
            steps.append(("flush", path))
            super().flush(path)

        def rename(self, source: Path, target: Path) -> None:
            steps.append(("rename", target))
            super().rename(source, target)

    monkeypatch.setattr(atomic_files, "disk", Recording())
    assert run_suite(suite, out).complete
    last = steps.index(("rename", out / "run.json"))
    assert ("flush", out / ".units" / "joined" / "run.json") in steps[:last]
    assert steps[last - 1] == ("flush", out)
    assert ("flush", out) in steps[last + 1 :]
    for kind in SCHEMAS:
        table = out / f"{kind}.parquet"
        named = steps.index(("rename", table))
        assert ("flush", out / ".units" / "joined" / table.name) in steps[:named]
        assert named < last


@pytest.mark.long
def test_while_a_finished_run_is_made_again_nothing_says_complete(
    suite: Suite, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    assert run_suite(suite, out).complete
    seen: list[bool] = []

    def watched(unit):  # type: ignore[no-untyped-def]
        record = out / "run.json"
        seen.append(record.exists() and json.loads(record.read_text())["complete"])
        return work_and_sign(unit)

    monkeypatch.setattr("exitbench.executors.unit.work_and_sign", watched)
    assert run_suite(suite, out, force=True).complete
    assert len(seen) > 2
    assert not any(seen)
    assert json.loads((out / "run.json").read_text())["complete"]
