"""One case of the fault matrix: a verb meets a fault, and then runs once more without it."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from exitbench.output_folder import INVENTORY
from tests.support.fault_server import FaultServer, Limits, Running, start_program
from tests.support.fault_verbs import Verb, copy_materials, says_incomplete, snapshot, temporary_files

VIEWS = ("figures/", "tables/", "report.html", "findings.md", INVENTORY)
"""What of a run is made after its results, and made again by ``exitbench report``, and the list of it."""

STARTING = 2.5
"""Seconds of processor time that a program spends on imports, or more."""


@dataclass(frozen=True)
class Expected:
    """What a verb leaves when nothing happens, and the seconds it takes: of processor time, and by the clock."""

    files: dict[str, bytes]
    seconds: float
    elapsed: float

    @property
    def largest(self) -> int:
        return max(map(len, self.files.values()))


@dataclass
class Case:
    """A verb in a folder of its own, with the files that were there before."""

    server: FaultServer
    verb: Verb
    folder: Path
    expected: Expected
    chance: random.Random

    def __post_init__(self) -> None:
        self.before, self.paths = snapshot(self.folder), {*self.folder.rglob("*")}
        self.made = self.folder / self.verb.made

    def start(self, limits: Limits | None = None, words: tuple[str, ...] | None = None) -> Running:
        return self.server.start(list(words or self.verb.words), self.folder, self.folder.with_suffix(".logs"), limits)

    def reach(self, running: Running, share: float) -> None:
        """Wait until a process has done this share of what it usually does."""
        if self.verb.workers:  # most of it is done by other processes
            time.sleep(self.expected.elapsed * share)
        else:
            running.reach(self.expected.seconds * share)

    def reach_a_write(self, running: Running) -> None:
        """Wait until there is a file or folder that was not there before, or the process has ended."""
        while running.is_running() and {*self.folder.rglob("*")} <= self.paths:
            time.sleep(0.001)

    def ended(self, running: Running, *allowed: int) -> int:
        """Wait for the end; the exit code must be allowed, nothing may be left running, and no traceback printed."""
        code = running.wait()
        errors = running.err.read_text(errors="replace")
        assert code is not None, f"still running; {errors[-300:]}"
        assert code in allowed, f"expected an exit code of {allowed}, found {code}: {errors[-600:]}"
        assert "Traceback" not in errors, errors[-600:]
        assert running.left_behind() == []
        return code

    def nothing_is_damaged(self) -> None:
        """Every file is the one that was there, or the finished new one; what the verb goes on with apart."""
        now = snapshot(self.folder)
        for name in self.before:
            assert name in now or self._is_made(name), f"{name} is gone"
        for name, content in now.items():
            fine = content in (self.before.get(name), self.expected.files.get(name))
            fine = fine or self._is_unfinished(name) or (self._is_made(name) and says_incomplete(self.made))
            assert fine, f"{name} is neither the old nor the new file"
        if self.verb.complete(self.made):
            for name, content in self.expected.files.items():
                if self._is_made(name) and not name.removeprefix(f"{self.verb.made}/").startswith(VIEWS):
                    assert now.get(name) in (content, self.before.get(name)), f"{name} of something complete is missing"

    def nothing_temporary_is_left(self) -> None:
        left = [name for name in temporary_files(self.folder) if not self._is_unfinished(name)]
        assert left == [], left

    def next_run_finishes(self) -> str:
        """Run once more without a fault; the files must be those of an uninterrupted run. What it had to do.

        Where nothing was written yet, that would only be the run that the case is compared with.
        """
        if snapshot(self.folder) == self.before and not temporary_files(self.folder):
            return "nothing was written"
        there = self.verb.complete(self.made)
        words = (*self.verb.words, *self.verb.again)
        if there and self.verb.name.startswith("run"):
            words = ("report", self.verb.made)
        done = there and snapshot(self.folder) == self.expected.files
        if not done:
            self.ended(self.start(words=words), 0)
        now = snapshot(self.folder)
        differing = [name for name in {*now, *self.expected.files} if now.get(name) != self.expected.files.get(name)]
        assert differing == [], differing
        assert temporary_files(self.folder) == [], temporary_files(self.folder)
        return "was complete" if done else "next run: same bytes"

    def _is_made(self, name: str) -> bool:
        return name == self.verb.made or name.startswith(f"{self.verb.made}/")

    def _is_unfinished(self, name: str) -> bool:
        unfinished = (*self.verb.unfinished, f"{self.verb.made}/{INVENTORY}")
        return any(name == path or name.startswith(f"{path}/") for path in unfinished)


def killed(number: signal.Signals) -> Callable[[Case], str]:
    """A signal at a random moment of the usual time, two in three of them after something was written."""

    def fault(case: Case) -> str:
        running = case.start()
        if case.chance.random() < 1 / 3:
            case.reach(running, case.chance.uniform(0.02, 1.0))
        else:
            case.reach_a_write(running)
            time.sleep(case.chance.choice((0.0, 0.002, 0.01, 0.05)))
            case.reach(running, case.chance.uniform(0.02, 1.0))
        running.send(number)
        gone = -signal.SIGKILL if number is signal.SIGKILL else 130
        # A signal before the program has its own answer to SIGTERM ends it as any program.
        early = (-signal.SIGTERM,) if number is signal.SIGTERM else ()
        code = case.ended(running, 0, gone, *early)
        case.nothing_is_damaged()
        if number is not signal.SIGKILL:
            case.nothing_temporary_is_left()
        if code == 0:
            return "had finished"
        return f"stopped; {case.next_run_finishes()}"

    return fault


def killed_while_starting(number: signal.Signals) -> Callable[[Case], str]:
    """A signal while the program imports what it needs, as early as before its first statement."""

    def fault(case: Case) -> str:
        program = start_program(list(case.verb.words), case.folder, case.folder.with_suffix(".logs"))
        program.reach(case.chance.uniform(0.0, STARTING))
        program.send(number)
        code = program.wait()
        # Python itself answers before exitbench does, with the signal, or with 1 while it starts.
        assert code in (0, 1, 130, -number), program.err.read_text(errors="replace")[-600:]
        assert program.left_behind() == []
        case.nothing_is_damaged()
        if number is not signal.SIGKILL:
            case.nothing_temporary_is_left()
        return "had finished" if code == 0 else f"stopped; {case.next_run_finishes()}"

    return fault


def full_disk(case: Case) -> str:
    """No file may be longer than a random size below that of the longest."""
    limit = case.chance.randrange(case.expected.largest)
    code = case.ended(case.start(Limits(file_bytes=limit)), 0, 1, 2)
    case.nothing_is_damaged()
    case.nothing_temporary_is_left()
    case.next_run_finishes()
    return "finished" if code == 0 else "refused; next run: same bytes"


def read_only(case: Case) -> str:
    """No folder may be written into."""
    with locked(case.folder):
        case.ended(case.start(Limits(no_privileges=True)), 1, 2)
        assert snapshot(case.folder) == case.before
    case.nothing_temporary_is_left()
    case.next_run_finishes()
    return "refused; next run: same bytes"


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """All folders read-only but the one for temporary files."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir() and path.name != "temporary")]
    for path in folders:
        path.chmod(0o555)
    try:
        yield
    finally:
        for path in folders:
            path.chmod(0o755)


def few_open_files(case: Case) -> str:
    """A handful of files may be open at a time."""
    code = case.ended(case.start(Limits(open_files=case.chance.randrange(4, 24))), 0, 1, 2)
    case.nothing_is_damaged()
    case.nothing_temporary_is_left()
    case.next_run_finishes()
    return "finished" if code == 0 else "refused; next run: same bytes"


def output_lost(kind: str) -> Callable[[Case], str]:
    """Nothing can be printed: the files are made all the same."""

    def fault(case: Case) -> str:
        case.ended(case.start(Limits(output=kind)), 0, 1)
        assert snapshot(case.folder) == case.expected.files
        case.nothing_temporary_is_left()
        return "finished: same bytes"

    return fault


def second_instance(case: Case) -> str:
    """Two of the same at once: both may finish, or one may be refused; what is there in the end is whole."""
    first = case.start()
    case.reach(first, case.chance.uniform(0.0, 0.5))
    second = case.start()
    codes = sorted((case.ended(first, 0, 1, 2), case.ended(second, 0, 1, 2)))
    assert codes[0] == 0, "expected one of the two to finish"
    assert snapshot(case.folder) == case.expected.files
    case.nothing_temporary_is_left()
    return "both finished" if codes == [0, 0] else "one finished, one was refused"


FAULTS: dict[str, Callable[[Case], str]] = {
    "SIGTERM": killed(signal.SIGTERM),
    "SIGKILL": killed(signal.SIGKILL),
    "SIGINT": killed(signal.SIGINT),
    "SIGTERM while starting": killed_while_starting(signal.SIGTERM),
    "SIGKILL while starting": killed_while_starting(signal.SIGKILL),
    "SIGINT while starting": killed_while_starting(signal.SIGINT),
    "full disk": full_disk,
    "read-only": read_only,
    "few open files": few_open_files,
    "output closed": output_lost("closed"),
    "output to a broken pipe": output_lost("broken pipe"),
    "output to a full disk": output_lost("full"),
    "second instance": second_instance,
}


def new_case(server: FaultServer, verb: Verb, materials: Path, folder: Path, expected: Expected, seed: str) -> Case:
    """A case in a new folder; all that is random about it comes from ``seed``."""
    copy_materials(materials, folder, verb.needs)
    return Case(server, verb, folder, expected, random.Random(seed))
