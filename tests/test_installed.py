"""exitbench as users have it: a wheel in a new environment, in a project that has packages of the rooms' names."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.wheels import ROOMS, ROOT, checkout, environment, files_of, run, unpacked_sdist, wheel

pytestmark = [pytest.mark.process, pytest.mark.e2e]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("built")
    return wheel(checkout(folder / "checkout", links=True), folder / "wheels")


@pytest.fixture(scope="module")
def programs(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return environment(tmp_path_factory.mktemp("installed") / "env", built)


@pytest.fixture(scope="module")
def project(programs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A user's project with its own ``signals``, ``benchmarks`` and ``reports``, and a small cache."""
    folder = tmp_path_factory.mktemp("project")
    for room in ROOMS:
        (folder / room).mkdir()
        (folder / room / "__init__.py").write_text('OWNER = "the user"\n')
    program = "from exitbench.cache import synthetic_cache; synthetic_cache('cache', rows=60, layers=4)"
    run(programs / "python", "-c", program, cwd=folder)
    return folder


@pytest.fixture(autouse=True)
def no_checkout_on_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTHONPATH", raising=False)


def package_files() -> set[str]:
    """The modules, stubs and data that lie in the rooms of this checkout, as a wheel names them."""
    names = set()
    for room in ("exitbench", *ROOMS):
        for folder, _, files in os.walk(ROOT / room):
            inside = Path(folder).relative_to(ROOT)
            if "__pycache__" not in inside.parts and inside.parts[:2] != ("benchmarks", "speed"):
                prefix = Path() if room == "exitbench" else Path("exitbench")
                names |= {(prefix / inside / file).as_posix() for file in files}
    return names


def test_a_wheel_holds_every_file_of_the_rooms_and_nothing_else(built: Path) -> None:
    files = files_of(built)
    assert {name.split("/")[0] for name in files} == {"exitbench"}
    assert not any(name.startswith("exitbench/benchmarks/speed") for name in files)
    assert files == package_files()
    assert {"exitbench/py.typed", "exitbench/__init__.pyi", "exitbench/signals/cap.py"} <= files


def test_an_sdist_gives_the_same_wheel(built: Path, tmp_path: Path) -> None:
    source = unpacked_sdist(checkout(tmp_path / "checkout", links=True), tmp_path / "sdist")
    assert files_of(wheel(source, tmp_path / "wheels")) == files_of(built)


def test_a_checkout_without_symbolic_links_gives_the_same_wheel_and_sdist(built: Path, tmp_path: Path) -> None:
    plain = checkout(tmp_path / "checkout", links=False)
    assert files_of(wheel(plain, tmp_path / "wheels")) == files_of(built)
    source = unpacked_sdist(plain, tmp_path / "sdist")
    assert files_of(wheel(source, tmp_path / "from-sdist")) == files_of(built)


def test_a_checkout_without_symbolic_links_runs_where_it_lies(tmp_path: Path) -> None:
    plain = checkout(tmp_path / "checkout", links=False)
    listed = run(sys.executable, "-m", "exitbench", "list", "signals", cwd=plain)
    assert "cap" in listed and "deebert" in listed
    program = (
        f"import sys; sys.path.insert(0, {str(plain)!r})\n"
        "import exitbench; from exitbench import evaluate, ExitSignal\n"
        "import exitbench.reports.write_views, exitbench.benchmarks.suites.suite_file\n"
        "print(exitbench.__file__)"
    )
    assert Path(run(sys.executable, "-c", program, cwd=tmp_path).strip()).is_relative_to(plain)


def test_the_installed_package_is_the_wheels(programs: Path, project: Path) -> None:
    where = run(programs / "python", "-c", "import exitbench; print(exitbench.__file__)", cwd=project)
    assert Path(where.strip()).is_relative_to(programs.parent)


@pytest.mark.parametrize("program", [["exitbench"], ["python", "-m", "exitbench"]], ids=" ".join)
def test_the_command_line_lists_the_signals(programs: Path, project: Path, program: list[str]) -> None:
    listed = run(programs / program[0], *program[1:], "list", "signals", cwd=project)
    assert all(name in listed for name in ("deebert", "pabee", "e-lang", "nsp", "cap"))


def test_a_run_of_two_processes_writes_its_page(programs: Path, project: Path, tmp_path: Path) -> None:
    words = ["run", "cache", "--signals", "deebert", "--protocol", "in-sample", "--resamples", "5", "--jobs", "2"]
    run(programs / "exitbench", *words, "--out", tmp_path / "out", cwd=project)
    assert (tmp_path / "out" / "report.html").is_file()
    assert (tmp_path / "out" / "results.parquet").is_file()


def test_the_documented_names_and_the_users_packages_go_together(programs: Path, project: Path) -> None:
    program = (
        "from exitbench import evaluate, ExitSignal\n"
        "import benchmarks, reports, signals\n"
        "print(benchmarks.OWNER, reports.OWNER, signals.OWNER, ExitSignal.__module__.split('.')[0])\n"
        "print(len(evaluate('cache', ['deebert'], resamples=5).results) > 0)"
    )
    printed = run(programs / "python", "-c", program, cwd=project)
    assert printed == "the user the user the user exitbench\nTrue\n"


def test_a_signal_of_the_users_own_passes_its_test(programs: Path, project: Path) -> None:
    run(programs / "exitbench", "new-signal", "own-lead", "--dir", "signals", cwd=project)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "signals/test_own_lead.py"]
    done = subprocess.run([programs / "python", *words], cwd=project, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout
    assert "own-lead" in run(programs / "exitbench", "list", "signals", "--signals-dir", "signals", cwd=project)
