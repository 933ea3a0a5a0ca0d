"""The current folder may be a stranger's cache: no process of exitbench imports from it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from exitbench.executors.worker_processes import SAFE_PATH, safe_path

CLONE = Path(__file__).parents[1]

MODULES = ("array", "wave", "lazy_loader", "pathlib", "typer", "torch", "numpy", "multiprocessing", "git", "concurrent")
"""Names a stranger would choose: modules that exitbench or what it uses imports sooner or later."""


@pytest.fixture
def trapped(tmp_path: Path) -> Path:
    """A cache whose folder holds Python files; each that is imported leaves its name beside the folder."""
    cache = tmp_path / "cache"
    synthetic_cache(cache, rows=60, layers=4, width=6, seed=1)
    for module in MODULES:
        note = tmp_path / f"imported-{module}"
        (cache / f"{module}.py").write_text(f"open({str(note)!r}, 'w').close()\nraise ImportError('a trap')\n")
    return cache


def imported_traps(cache: Path) -> list[str]:
    return sorted(path.name for path in cache.parent.glob("imported-*"))


def started_in(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", SAFE_PATH)}
    return subprocess.run(words, check=False, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)


MODULE = (sys.executable, "-m", "exitbench")
SCRIPT = (str(Path(sys.executable).parent / "exitbench"),)
QUICK = ("--signals", "deebert", "--protocol", "in-sample", "--resamples", "2")


@pytest.mark.process
def test_a_run_in_a_cache_with_python_files_imports_none_of_them(trapped: Path) -> None:
    finished = started_in(trapped, *MODULE, "run", ".", *QUICK, "--jobs", "2", "--out", "../out")
    assert finished.returncode == 0, finished.stderr
    assert imported_traps(trapped) == []
    assert json.loads((trapped.parent / "out/run.json").read_text())["jobs"] == 2


@pytest.mark.process
@pytest.mark.parametrize("words", [(*SCRIPT, "verify", "."), (*MODULE, "list", "signals")], ids=["script", "module"])
def test_no_verb_imports_from_the_current_folder(trapped: Path, words: tuple[str, ...]) -> None:
    finished = started_in(trapped, *words)
    assert finished.returncode == 0, finished.stderr
    assert imported_traps(trapped) == []


@pytest.mark.process
def test_a_program_that_imports_exitbench_keeps_its_search_path(tmp_path: Path) -> None:
    text = "import sys; before = list(sys.path); import exitbench; exitbench.Cache; assert sys.path == before, sys.path"
    assert started_in(tmp_path, sys.executable, "-c", text).returncode == 0
    (tmp_path / "program.py").write_text(text)
    for words in (("program.py",), ("-m", "program")):
        finished = started_in(tmp_path, sys.executable, *words)
        assert finished.returncode == 0, finished.stderr


@pytest.mark.process
def test_a_clone_that_is_not_installed_is_found_where_it_lies() -> None:
    assert started_in(CLONE, sys.executable, "-m", "exitbench", "--version").returncode == 0


def test_the_environment_is_as_before_once_processes_are_started(monkeypatch: pytest.MonkeyPatch) -> None:
    for before in (None, "", "1"):
        if before is None:
            monkeypatch.delenv(SAFE_PATH, raising=False)
        else:
            monkeypatch.setenv(SAFE_PATH, before)
        with safe_path():
            assert os.environ[SAFE_PATH] == "1"
        assert os.environ.get(SAFE_PATH) == before
