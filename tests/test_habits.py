"""The test command's own promises: tiers that say what a test starts, and an end for a test that hangs."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

HANGING = """
import subprocess, sys

def test_waits_for_a_child_that_never_answers():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], stdout=subprocess.PIPE)
    try:
        child.stdout.read()
    finally:
        child.kill()

def test_comes_next():
    pass
"""

UNMARKED = """
import multiprocessing, subprocess, sys
import pytest

def test_starts_a_program():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_starts_a_worker():
    process = multiprocessing.get_context("spawn").Process(target=print)
    process.start()
    process.join()

@pytest.mark.process
def test_says_so():
    subprocess.run([sys.executable, "-c", ""], check=True)

def test_starts_nothing():
    pass
"""

INTERRUPTED = """
import os, signal, subprocess, sys
import pytest

def test_here():
    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)

@pytest.mark.process
def test_in_a_child():
    program = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert subprocess.check_output([sys.executable, "-c", program], text=True) == "True\\n"
"""


def session(folder: Path, tests: str, *words: str, ignoring: bool = False) -> str:
    """What pytest prints about some tests that have this project's settings and conftest."""
    (folder / "conftest.py").write_text((ROOT / "tests/conftest.py").read_text())
    (folder / "test_session.py").write_text(tests)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-c",
        ROOT / "pyproject.toml",
        "--rootdir",
        folder,
        "-p",
        "no:cacheprovider",
    ]
    if ignoring:
        command = ["sh", "-c", 'trap "" INT; exec "$@"', "sh", *command]
    return subprocess.run([*command, *words, "."], cwd=folder, capture_output=True, text=True, check=False).stdout


@pytest.mark.process
def test_a_test_that_hangs_in_a_read_fails_alone(tmp_path: Path) -> None:
    printed = session(tmp_path, HANGING, "--timeout", "1", "-m", "")
    assert "Timeout (>1.0s)" in printed
    assert "1 failed, 1 passed" in printed


@pytest.mark.process
def test_a_test_that_starts_programs_needs_a_mark(tmp_path: Path) -> None:
    printed = session(tmp_path, UNMARKED)
    assert "2 failed, 2 passed" in printed
    assert printed.count("expected the mark 'process' on a test that starts programs, found none") >= 2


@pytest.mark.process
@pytest.mark.parametrize("ignoring", [False, True], ids=["foreground", "SIGINT ignored by the parent"])
def test_ctrl_c_reaches_tests_and_their_children(tmp_path: Path, ignoring: bool) -> None:
    assert "2 passed" in session(tmp_path, INTERRUPTED, ignoring=ignoring)
