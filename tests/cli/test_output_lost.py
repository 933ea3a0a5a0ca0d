"""Standard output that is closed, full, or in an encoding that lacks a sign: the work is done all the same."""

import os
import subprocess
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from tests.support.command_line import QUICK, program

FULL = Path("/dev/full")
needs_full_device = pytest.mark.skipif(not FULL.exists(), reason="this system has no device that is always full")


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache whose task has a name that ASCII cannot print."""
    return synthetic_cache(tmp_path_factory.mktemp("lost") / "c", rows=60, layers=5, width=6, task="tâche→")


def closed_pipe() -> int:
    """The end of a pipe that nobody reads."""
    reader, writer = os.pipe()
    os.close(reader)
    return writer


def assert_reported(folder: Path) -> None:
    assert (folder / "run.json").is_file()
    assert "</html>" in (folder / "report.html").read_text()


@pytest.mark.process
def test_a_run_whose_reader_went_away_still_makes_its_report(cache: Path, tmp_path: Path) -> None:
    done = program("run", cache, *QUICK, "--out", tmp_path / "out", stdout=closed_pipe(), stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")
    assert_reported(tmp_path / "out")


@pytest.mark.process
def test_a_run_without_a_standard_output_writes_its_files_and_nothing_else_into_them(
    cache: Path, tmp_path: Path
) -> None:
    done = program(
        "run", cache, *QUICK, "--out", tmp_path / "out", stderr=subprocess.PIPE, preexec_fn=lambda: os.close(1)
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert_reported(tmp_path / "out")


@pytest.mark.process
@needs_full_device
def test_a_run_onto_a_full_disk_of_output_makes_its_report_and_says_what_was_lost(cache: Path, tmp_path: Path) -> None:
    with FULL.open("w") as full:
        done = program("run", cache, *QUICK, "--out", tmp_path / "out", stdout=full, stderr=subprocess.PIPE)
    expected = "warning: standard output: no space left on device; not all was printed\n"
    assert (done.returncode, done.stderr) == (0, expected)
    assert_reported(tmp_path / "out")


@pytest.mark.process
def test_a_run_prints_in_ascii_what_ascii_has(cache: Path, tmp_path: Path) -> None:
    words = ["run", cache, *QUICK, "--out", tmp_path / "out"]
    done = program(*words, capture_output=True, env={"PYTHONIOENCODING": "ascii", "COLUMNS": "160"})
    assert (done.returncode, done.stderr) == (0, "")
    assert r"t\xe2che\u2192" in done.stdout
    assert_reported(tmp_path / "out")


@pytest.mark.process
@pytest.mark.parametrize(
    "words", [["list", "suites"], ["inspect", "CACHE"], ["verify", "CACHE"], ["--help"]], ids=lambda words: words[0]
)
def test_a_verb_whose_reader_went_away_ends_quietly_with_its_own_exit_code(words: list[str], cache: Path) -> None:
    chosen = [cache if word == "CACHE" else word for word in words]
    done = program(*chosen, stdout=closed_pipe(), stderr=subprocess.PIPE)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.process
@needs_full_device
def test_an_answer_that_could_not_be_printed_is_incomplete(cache: Path) -> None:
    with FULL.open("w") as full:
        done = program("inspect", cache, "--json", stdout=full, stderr=subprocess.PIPE)
    expected = "warning: standard output: no space left on device; not all was printed\n"
    assert (done.returncode, done.stderr) == (1, expected)
