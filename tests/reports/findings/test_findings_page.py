"""``docs/findings.md`` and what it links to is made from kept rows, and those of the paper suite are the baseline's."""

from __future__ import annotations

import importlib.util
import json
import math
import re
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest

from exitbench.benchmarks.baselines.baseline_table import Baseline, Pinned, pinned_rows, read_baseline
from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.results.schema import KEY
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.places import BASELINES, CACHES, FIXTURES
from exitbench.reports.findings.evidence.contested_runs import RunsTogether
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.findings_runs import altered
from tests.support.page_runs import main_run

AGAIN = "run: exitbench run NAME && exitbench check --update && python scripts/write_findings.py out/NAME"


@pytest.fixture(scope="module")
def script() -> ModuleType:
    """scripts/write_findings.py as a module."""
    spec = importlib.util.spec_from_file_location("findings_script", FIXTURES.parent / "scripts" / "write_findings.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def baseline() -> Baseline:
    return read_baseline(BASELINES / "paper.csv")


@pytest.fixture(scope="module")
def kept() -> FinishedRun:
    return FinishedRun(FIXTURES / "findings" / "paper")


def apart(value: float, pinned: Pinned, tolerance: float) -> bool:
    """Whether a number is not the pinned one; undefined agrees with undefined only."""
    if math.isnan(value) or math.isnan(pinned.value):
        return math.isnan(value) != math.isnan(pinned.value)
    return abs(value - pinned.value) > tolerance


def disagreements(run: FinishedRun, baseline: Baseline) -> Iterator[str]:
    """Every number of a run, and every difference, that the baseline does not confirm."""
    for row in pinned_rows(run.rows.values()):
        if row.measure == "threshold":
            continue
        pinned = baseline.get(row.key)
        if pinned is None or apart(row.value, pinned, pinned.tolerance):
            yield f"result {row.key}"
    for pair in run.pair_rows:
        sides = []
        for side in "ab":
            named = {**pair, "signal": pair[f"signal_{side}"], "parameters": pair[f"parameters_{side}"]}
            sides.append(baseline.get(tuple(named[name] for name in KEY)))
        first, second = sides
        if first is None or second is None:
            yield f"pair without its numbers {pair}"
        else:
            both = Pinned(first.value - second.value, first.tolerance + second.tolerance)
            if apart(pair["difference"], both, both.tolerance):
                yield f"difference {pair}"


@pytest.mark.long
def test_the_pages_are_what_their_rows_give(script: ModuleType) -> None:
    runs = script.kept_runs()
    pages = script.pages(runs, RunsTogether(runs))
    assert len(pages) == 1 + len(runs)
    for path, text in pages.items():
        assert path.read_text(encoding="utf-8") == text, "run: python scripts/write_findings.py"


def test_every_picture_and_table_of_the_page_is_there_and_no_other(script: ModuleType) -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    linked = {Path(target).name for target in re.findall(r"\]\(findings/([^)]+)\)", page)}
    assert linked == {path.name for path in (script.PAGE.parent / "findings").iterdir()}
    assert sum(name.endswith(".svg") for name in linked) >= 7


def test_the_rows_are_those_of_todays_suites_on_the_committed_caches(script: ModuleType) -> None:
    runs = script.kept_runs()
    assert {run.suite["name"] for run in runs} == {path.name for path in script.KEPT.iterdir()}
    for run in runs:
        assert run.suite == json.loads(json.dumps(load_suite(run.suite["name"]).to_json())), AGAIN
        for cache in run.caches:
            digest = run.record["caches"][cache.name]["manifest_sha256"]
            assert digest == Cache(CACHES / cache.name).manifest_sha256, AGAIN


@pytest.mark.long
def test_the_rows_are_the_numbers_of_the_baseline(kept: FinishedRun, baseline: Baseline) -> None:
    assert list(disagreements(kept, baseline)) == [], AGAIN


@pytest.mark.long
def test_the_page_shows_no_row_less_than_the_baseline_has(
    script: ModuleType, kept: FinishedRun, baseline: Baseline
) -> None:
    shown = {key for key in baseline if script.is_shown(kept, dict(zip(KEY, key, strict=True)))}
    assert shown - kept.rows.keys() == set(), AGAIN
    assert len(shown) > 100


@pytest.mark.long
def test_a_number_that_moves_by_more_than_its_tolerance_is_seen(kept: FinishedRun, baseline: Baseline) -> None:
    cache = next(cache for cache in kept.caches if cache.layers == 12)
    cap = next(entry for entry in kept.entries if entry.signal == "cap")
    row = kept.row(cache, "cross-fit", cap.signal, cap.parameters, "dis", NOWHERE, 6)
    assert row is not None
    key = row.key
    moved = {**baseline, key: replace(baseline[key], value=baseline[key].value + 3 * baseline[key].tolerance)}
    messages = list(disagreements(kept, moved))
    assert f"result {key}" in messages
    assert sum(message.startswith("difference") for message in messages) == len(kept.entries) - 1, (
        "one pair with each other signal"
    )


def test_nothing_of_the_machine_is_kept(kept: FinishedRun) -> None:
    text = (kept.path / "run.json").read_text(encoding="utf-8")
    assert {"machine", "git", "command"}.isdisjoint(json.loads(text))
    assert not any(f'"{start}' in text for start in ("/work", "/tmp", "/home", "/root"))


@pytest.mark.long
def test_a_run_of_another_suite_or_an_incomplete_one_is_refused(
    script: ModuleType, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with pytest.raises(InputError, match="expected one of paper, classes"):
        script.keep(main_run(tmp_path_factory))
    other = tmp_path / "other"
    shutil.copytree(FIXTURES / "findings" / "paper", other)
    changed = json.loads((other / "run.json").read_text())
    changed["suite"]["resamples"] += 1
    (other / "run.json").write_text(json.dumps(changed))
    with pytest.raises(InputError, match="another suite than paper"):
        script.keep(other)
    incomplete = tmp_path / "incomplete"
    shutil.copytree(FIXTURES / "findings" / "paper", incomplete)
    record = json.loads((incomplete / "run.json").read_text()) | {"complete": False}
    (incomplete / "run.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match="incomplete"):
        script.keep(incomplete)


@pytest.mark.long
def test_keeping_a_run_again_keeps_the_same_rows(
    script: ModuleType, kept: FinishedRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = altered(kept.path, tmp_path / "run")
    monkeypatch.setattr(script, "KEPT", tmp_path / "kept")
    script.keep(copy.path)
    again = FinishedRun(tmp_path / "kept" / "paper")
    assert again.rows.keys() == kept.rows.keys()
    assert len(again.pair_rows) == len(kept.pair_rows)
