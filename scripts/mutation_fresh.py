"""Ask tests about a mutant in a process that imports the changed file: slower than a warm copy, blind to nothing."""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import os
import resource
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mutants import Mutant
from mutation_names import OTHERS, OWN, Tests, own_files
from mutation_warm import ALWAYS, TIER

LATER_TIER = "process and not browser and not e2e and not slow"
LATER_SECONDS = 240
AGAIN = 4
"""How many times more files and seconds the survivors are given that are asked again."""


class Noted:
    """A pytest plug-in: the tests that failed."""

    def __init__(self) -> None:
        self.failed: list[str] = []

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (import)")


def pytest_here(tree: str, words: Sequence[str], seconds: int, answer: Any) -> None:
    """In a forked process: pytest in the copy of the tree; the answer is its exit code and the tests that failed."""
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    os.chdir(tree)
    sys.path.insert(0, tree)
    os.environ["PYTHONPATH"] = tree
    import pytest

    noted = Noted()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = int(pytest.main([*ALWAYS, "-x", *words], plugins=[noted]))
    import exitbench

    assert Path(exitbench.__file__).is_relative_to(tree), "the copy of the tree is not what was tested"
    answer.send((code, noted.failed))


def forked(tree: Path, words: Sequence[str], seconds: int) -> tuple[int, list[str]]:
    """pytest in a process that shares the libraries already imported here, and nothing of exitbench."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=pytest_here, args=(str(tree), words, seconds, sender))
    process.start()
    sender.close()
    answer: tuple[int, list[str]] = (70, [])
    try:
        answer = receiver.recv()
    except EOFError:
        process.join()
        answer = (process.exitcode or 70, [])
    process.join()
    return answer


def judge(tree: Path, mutant: Mutant, tests: Tests, *, again: bool) -> tuple[str, str]:
    """``killed`` or ``survived`` and the test that noticed.

    Which tests take long without a change is not known here: running out of time is no more than a survivor.
    """
    path, more = tree / mutant.file, AGAIN if again else 1
    own, others = own_files(tree, mutant.file), tests.others(mutant, 6 * more)
    groups = [(TIER, own, int(OWN) * more), (TIER, others, int(OTHERS) * more)]
    if again:
        later = [file for file in (*own, *others) if "process" in (tree / file).read_text()]
        groups.append((LATER_TIER, later, LATER_SECONDS))
    source, stamp = path.read_bytes(), path.stat()
    late = ""
    try:
        path.write_bytes(mutant.applied(source))
        os.utime(path, (1, 1))  # compiled files are told apart by their source's time and size
        for tier, files, seconds in groups:
            code, failed = forked(tree, ["-m", tier, *files], seconds) if files else (5, [])
            if code in (-24, -9):
                late = f"more than {seconds} s: {' '.join(files)}"
            elif code not in (0, 5):  # 5: no test was collected
                return "killed", failed[0] if failed else f"ended with {code}"
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    return "survived", late
