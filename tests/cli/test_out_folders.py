"""What is a user's own is refused by every verb that would write there, and nothing of it is touched."""

import shutil
from pathlib import Path

import pytest

from exitbench.output_folder import INVENTORY
from tests.support.command_line import exit_code
from tests.support.fault_verbs import VERBS, Verb, copy_materials, make_materials
from tests.support.table_runs import small_run

ELSEWHERE = ("pull", "site", "new-signal")
"""The first two are asked in ``tests/hub`` and ``tests/reports``; the last adds its two files to a user's folder."""
VIEWS = {
    "report": ("report", "run"),
    "table": ("table", "run", "--all"),
    "figure": ("figure", "run", "trade-off", "--format", "svg"),
}
"""These add to a run."""
MAKERS = [verb for verb in VERBS if verb.made == "made" and verb.name not in (*ELSEWHERE, *VIEWS) and not verb.workers]

pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("materials")
    make_materials(folder)
    return folder


def files(folder: Path) -> dict[str, bytes]:
    """Every file but the list of its own that exitbench keeps in a run."""
    paths = [path for path in folder.rglob("*") if path.is_file() and path.name != INVENTORY]
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in paths}


def is_refused(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*words) == 2
    errors = capsys.readouterr().err
    assert errors.startswith("error: ")
    assert errors.count("\n") == 1, errors


@pytest.mark.parametrize("verb", MAKERS, ids=[verb.name for verb in MAKERS])
def test_a_users_folder_is_refused_and_left_as_it_is(
    verb: Verb, materials: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "case"
    copy_materials(materials, folder, tuple(name for name in verb.needs if name != "made"))
    for name in ("main.tex", "findings.md", "results.parquet", "figures/1.svg", "tables/1.tex", "cost.json"):
        (folder / "made" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "made" / name).write_text(f"my {name}")
    before = files(folder)
    monkeypatch.chdir(folder)
    is_refused(verb.words, capsys)
    assert files(folder) == before


@pytest.mark.parametrize("verb", VIEWS)
def test_a_users_file_in_the_way_of_a_view_is_refused_and_left_as_it_is(
    verb: str,
    tmp_path_factory: pytest.TempPathFactory,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    run = shutil.copytree(small_run(tmp_path_factory), tmp_path / "run")
    before = files(run)
    assert exit_code(*VIEWS[verb]) == 0
    made = {*files(run)} - {*before}
    capsys.readouterr()
    for name in (min(made), max(made)):  # before anything else is written, and after it
        shutil.rmtree(run)
        shutil.copytree(small_run(tmp_path_factory), run)
        (run / name).parent.mkdir(parents=True, exist_ok=True)
        (run / name).write_text("mine")
        there = files(run)
        is_refused(VIEWS[verb], capsys)
        assert files(run) == there
