"""A run and the folder it writes to: nothing of the user's is lost, nothing stale stays, failures are tried again."""

import hashlib
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from exitbench import atomic_files
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.run import run_record
from exitbench.benchmarks.run import run_suite as runner
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.run.units import CompareUnit, MeasureUnit
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.output_folder import INVENTORY
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.write_views import write_views

MOODY = '''
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from exitbench import ExitSignal, Reference

@dataclass(frozen=True)
class Moody(ExitSignal):
    """Fails until a file is there."""

    name: ClassVar[str] = "moody"
    title: ClassVar[str] = "Moody"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar[str] = "<"
    inputs: ClassVar[frozenset] = frozenset({"logits"})

    def score(self, layer):
        if not (Path(__file__).parent / "repaired").exists():
            raise RuntimeError("not today")
        return layer.logits64[:, 0]
'''


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    path = tmp_path_factory.mktemp("caches") / "m-a-dev"
    cache = synthetic_cache(path, rows=60, layers=5, width=6, compact=True, model="m", task="a")
    tiny = replace(suite_of_caches([cache]), name="tiny", signals=("deebert", "cap[alpha=0.1|1]"), findings=None)
    return tiny.asking(speed_ups=(1.5,), primary_speed_up=1.5, rates_speed_up=1.5, losses=(2.0,), resamples=5, folds=2)


@pytest.fixture(scope="module")
def finished(suite, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    assert run_suite(suite, out).complete
    return out


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / f"{name}.parquet").read_bytes()).hexdigest() for name in SCHEMAS}


def files(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.long
@pytest.mark.parametrize("force", [False, True])
def test_a_signal_that_failed_once_is_tried_again(suite, tmp_path, force):
    (tmp_path / "signals").mkdir()
    (tmp_path / "signals" / "moody.py").write_text(MOODY)
    moody = replace(suite, signals=(*suite.signals, "moody"))
    assert len(run_suite(moody, tmp_path / "out", directories=[tmp_path / "signals"]).failures) == 1
    (tmp_path / "signals" / "repaired").touch()  # the cause is gone, while no source has changed
    assert run_suite(moody, tmp_path / "out", directories=[tmp_path / "signals"], force=force).complete


@pytest.mark.long
def test_a_comparison_that_broke_off_is_not_taken_for_a_finished_one(finished, suite, tmp_path, monkeypatch):
    out, work = tmp_path / "out", CompareUnit.work

    def broken_off(unit):
        work(unit)
        raise InputError("no space left on the disk")

    with monkeypatch.context() as patch:
        patch.setattr(CompareUnit, "work", broken_off)
        outcome = run_suite(suite, out)
    assert [failure.label for failure in outcome.failures] == ["m-a-dev: comparisons"]
    assert outcome.files.table("pairs").empty
    assert run_suite(suite, out).complete
    assert digests(out) == digests(finished)


@pytest.mark.long
def test_what_was_compared_without_a_signal_is_compared_again_with_it(finished, suite, tmp_path, monkeypatch):
    out, work = tmp_path / "out", MeasureUnit.work

    def short_of_memory(unit):
        if unit.label.endswith("deebert"):
            raise InputError("out of memory")
        work(unit)

    with monkeypatch.context() as patch:
        patch.setattr(MeasureUnit, "work", short_of_memory)
        outcome = run_suite(suite, out)
    assert [failure.label for failure in outcome.failures] == ["m-a-dev: deebert"]
    assert "deebert" not in set(outcome.files.results["signal"])
    assert run_suite(suite, out).complete
    assert digests(out) == digests(finished)


@pytest.mark.parametrize("force", [False, True])
def test_a_folder_that_is_not_exitbenchs_is_refused_and_nothing_in_it_touched(suite, tmp_path, force):
    paper = tmp_path / "paper"
    for name in ("main.tex", "findings.md", "results.parquet", "figures/drawn-by-hand.svg", "tables/results.tex"):
        (paper / name).parent.mkdir(parents=True, exist_ok=True)
        (paper / name).write_text(f"my {name}")
    before = files(paper)
    with pytest.raises(InputError, match=r"paper: expected an empty folder, or one that exitbench made, found 5 other"):
        run_suite(suite, paper, force=force)
    assert files(paper) == before


@pytest.mark.long
def test_a_new_run_takes_the_old_page_away_first_and_leaves_a_users_files(suite, tmp_path, monkeypatch):
    out = tmp_path / "out"
    suite = replace(suite, signals=("deebert",)).asking(protocols=("in-sample",))
    assert run_suite(suite, out).complete
    write_views(FinishedRun(out))
    users = [out / "notes.txt", out / "tables" / "mine.tex", out / "figures" / "mine.svg"]
    (out / "figures").mkdir()
    for path in users:
        path.write_text("mine")
    removed = []
    remove = atomic_files.disk.remove

    def noted(path: Path) -> None:
        removed.append(path.name)
        remove(path)

    def killed(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.disk, "remove", noted)
        patch.setattr(runner, "perform_stages", killed)
        with pytest.raises(KeyboardInterrupt):
            run_suite(suite, out, force=True)
    assert removed[0] == "report.html"
    assert removed.index("run.json") < removed.index("results.parquet")
    assert set(files(out)) == {*users, out / INVENTORY}
    assert run_suite(suite, out).complete
    write_views(FinishedRun(out))
    assert all(path.read_text() == "mine" for path in users)


@pytest.mark.long
def test_the_record_is_written_before_the_units_go(suite, tmp_path, monkeypatch):
    units = tmp_path / "out" / ".units"
    write, seen = runner.write_json, []

    def noted(path, record):
        seen.append(units.is_dir())
        write(path, record)

    monkeypatch.setattr(runner, "write_json", noted)
    assert run_suite(suite, tmp_path / "out").complete
    assert seen == [True]
    units.mkdir()  # as a kill leaves it
    with pytest.raises(InputError, match="holds a finished run"):
        run_suite(suite, tmp_path / "out")
    assert not units.exists()


def test_a_commit_is_recorded_only_where_git_tracks_the_sources(tmp_path, monkeypatch):
    def git(*words: str) -> None:
        identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
        subprocess.run(["git", "-C", str(tmp_path), *identity, *words], check=True, capture_output=True)

    source = tmp_path / "venv" / "run_record.py"
    source.parent.mkdir()
    source.touch()
    (tmp_path / "thesis.tex").touch()
    git("init")
    git("add", "thesis.tex")
    git("commit", "-m", "the work of the user")
    monkeypatch.setattr(run_record, "__file__", str(source))
    assert run_record.git_state() == {"commit": None, "dirty": None}
    git("add", "venv")
    git("commit", "-m", "a clone")
    state = run_record.git_state()
    assert len(state["commit"]) == 40
    assert state["dirty"] is False
