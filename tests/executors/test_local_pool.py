"""Units over processes: started early, handed out without waiting, tried again when lost, gone with their parent."""

import multiprocessing
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from exitbench.errors import InputError
from exitbench.executors.executor import Performance, Step, perform_all
from exitbench.executors.local_pool import LOST, Workers
from exitbench.executors.unit import Failure, is_done
from tests.support.interrupts import gone

pytestmark = pytest.mark.process

RARE = "wave"
"""A module of the standard library that nothing here imports by itself."""


@dataclass(frozen=True)
class Note:
    """Leaves a text that tells what the process knows."""

    folder: Path
    label: str = "note"

    def work(self) -> None:
        (self.folder / "note").write_text(f"{os.getpid()} {RARE in sys.modules}")


@dataclass(frozen=True)
class Patient:
    """Is done once somebody else has written a file; gives up after a minute."""

    folder: Path
    awaited: Path
    label: str = "patient"

    def work(self) -> None:
        end = time.monotonic() + 60
        while not self.awaited.exists():
            if time.monotonic() > end:
                (self.folder / "gave up").touch()
                raise TimeoutError("nobody came")
            time.sleep(0.01)


@dataclass(frozen=True)
class Lost:
    """Takes its process along."""

    folder: Path
    label: str = "lost"

    def work(self) -> None:
        os._exit(3)


@dataclass(frozen=True)
class Unlucky:
    """Is killed the first time, as by a system that is out of memory."""

    folder: Path
    met: Path
    label: str = "unlucky"

    def work(self) -> None:
        if not self.met.exists():
            self.met.touch()
            os.kill(os.getpid(), signal.SIGKILL)


@dataclass(frozen=True)
class Stubborn:
    """Holds Python's lock for an hour: a regular expression that backtracks."""

    folder: Path
    label: str = "stubborn"

    def work(self) -> None:
        (self.folder / "process").write_text(str(os.getpid()))
        re.match(r"(a+)+$", "a" * 40 + "b")


@dataclass(frozen=True)
class Sleeping:
    """Waits for an hour."""

    folder: Path
    label: str = "sleeping"

    def work(self) -> None:
        (self.folder / "process").write_text(str(os.getpid()))
        time.sleep(3600)


@dataclass(frozen=True)
class Wrong:
    """Fails with a text of two lines."""

    folder: Path
    label: str

    def work(self) -> None:
        raise ValueError(f"bad\n{self.label}")


def ignore(_unit: object) -> None:
    pass


def notes(units: list[Note]) -> list[list[str]]:
    return [(unit.folder / "note").read_text().split() for unit in units]


def test_units_are_handed_out_without_waiting_for_them(tmp_path):
    units = [Patient(tmp_path / name, tmp_path / "signal") for name in "ab"]
    with Workers(2) as workers:
        performance = Performance(workers, [Step(unit) for unit in units], ignore)
        assert not any(map(is_done, units))
        (tmp_path / "signal").touch()
        assert performance.wait() == []
    assert all(map(is_done, units))


def test_an_error_ends_the_processes_instead_of_waiting_for_their_work(tmp_path):
    units = [Patient(tmp_path / name, tmp_path / "signal") for name in "ab"]
    with pytest.raises(InputError, match="mistyped"), Workers(2) as workers:
        Performance(workers, [Step(unit) for unit in units], ignore)
        while not all(unit.folder.exists() for unit in units):
            time.sleep(0.01)
        raise InputError("mistyped")
    assert not any((unit.folder / "gave up").exists() for unit in units)
    assert multiprocessing.active_children() == []


def test_an_error_leaves_other_children_of_the_program_alone(tmp_path):
    other = multiprocessing.get_context("spawn").Process(target=time.sleep, args=(600,))
    other.start()
    try:
        units = [Patient(tmp_path / name, tmp_path / "signal") for name in "ab"]
        with pytest.raises(InputError), Workers(2) as workers:
            Performance(workers, [Step(unit) for unit in units], ignore)
            raise InputError("mistyped")
        other.join(0.5)
        assert other.is_alive()
        assert multiprocessing.active_children() == [other]
    finally:
        other.kill()
        other.join()


def test_started_processes_have_imported_what_they_were_told_and_are_kept(tmp_path):
    assert RARE not in sys.modules
    first, second = ([Note(tmp_path / f"{stage}{number}") for number in range(4)] for stage in "ab")
    with Workers(2, modules=[RARE]) as workers:
        workers.start()
        assert perform_all(workers, first, ignore) == []
        assert perform_all(workers, second, ignore) == []
    assert {knows for _, knows in notes(first) + notes(second)} == {"True"}
    processes = {int(process) for process, _ in notes(first) + notes(second)}
    assert len(processes) <= 2
    assert os.getpid() not in processes


def test_one_job_is_this_process(tmp_path):
    units = [Note(tmp_path / name) for name in "ab"]
    with Workers() as workers:
        workers.start()
        assert perform_all(workers, units, ignore) == []
    assert [int(process) for process, _ in notes(units)] == [os.getpid()] * 2


def test_a_unit_that_ends_its_process_twice_fails_alone_and_the_next_stage_gets_new_processes(tmp_path):
    units = [Lost(tmp_path / "lost"), *(Note(tmp_path / str(number)) for number in range(6)), Lost(tmp_path / "other")]
    counted = []
    with Workers(2) as workers:
        failures = perform_all(workers, units, counted.append)
        assert failures == [Failure("lost", LOST)] * 2
        assert [unit for unit in units if not is_done(unit)] == [units[0], units[-1]]
        assert sorted(unit.folder for unit in counted) == sorted(unit.folder for unit in units)
        assert perform_all(workers, [Note(tmp_path / name) for name in "ab"], ignore) == []


def test_a_unit_whose_process_was_killed_from_outside_is_done_the_second_time(tmp_path):
    # Just one: another that was begun with it, and had not met its fate, would meet it when it is tried again.
    unlucky = Unlucky(tmp_path / "unlucky", tmp_path / "met")
    units = [Note(tmp_path / "before"), unlucky, Note(tmp_path / "after")]
    with Workers(2) as workers:
        assert perform_all(workers, units, ignore) == []
    assert all(map(is_done, units))
    assert unlucky.met.exists()


def test_a_process_that_ends_while_it_has_nothing_to_do_costs_no_unit(tmp_path):
    first, second = ([Note(tmp_path / f"{stage}{number}") for number in range(4)] for stage in "ab")
    with Workers(2) as workers:
        perform_all(workers, first, ignore)
        os.kill(int(notes(first)[0][0]), signal.SIGKILL)
        assert perform_all(workers, second, ignore) == []
    assert all(map(is_done, second))


def test_processes_that_cannot_start_are_a_failure_of_every_unit(tmp_path):
    units = [Note(tmp_path / name) for name in "ab"]
    with Workers(2, modules=["no.such.module"]) as workers:
        assert perform_all(workers, units, ignore) == [Failure("note", LOST)] * 2


PARENT = """
import sys
import threading
from pathlib import Path
from exitbench.executors.executor import perform_all
from exitbench.executors.local_pool import Workers
from tests.executors.test_local_pool import {kind}, ignore

def start():
    with Workers(2) as workers:
        perform_all(workers, [{kind}(Path(sys.argv[1]) / name) for name in "ab"], ignore)

if __name__ == "__main__":
    {start}
"""


@pytest.mark.parametrize(
    ("kind", "start"),
    [("Stubborn", "start()"), ("Sleeping", "(thread := threading.Thread(target=start)).start(), thread.join()")],
    ids=["holding the lock of Python", "started by another thread"],
)
def test_workers_end_with_a_parent_that_was_killed(tmp_path, kind, start):
    (tmp_path / "parent.py").write_text(PARENT.format(kind=kind, start=start))
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen([sys.executable, "parent.py", str(tmp_path)], cwd=tmp_path, env=environment) as parent:
        files = [tmp_path / name / "process" for name in "ab"]
        end = time.monotonic() + 60
        while not all(file.exists() and file.read_text() for file in files):
            assert time.monotonic() < end, "the units were not begun"
            time.sleep(0.01)
        parent.kill()
    for file in files:
        assert gone(int(file.read_text()), seconds=10)


@pytest.mark.parametrize("jobs", [1, 2])
def test_failures_come_in_the_order_of_the_units_each_in_one_line(tmp_path, jobs):
    units = [Wrong(tmp_path / name, name) for name in "abc"]
    with Workers(jobs) as workers:
        failures = perform_all(workers, units, ignore)
    assert failures == [Failure(name, f"ValueError: bad {name}") for name in "abc"]
    assert not any(map(is_done, units))


def test_what_is_done_is_only_counted(tmp_path):
    unit, seen = Note(tmp_path / "a"), []
    with Workers() as workers:
        perform_all(workers, [unit], seen.append)
        changed = (unit.folder / "note").stat().st_mtime_ns
        perform_all(workers, [unit], seen.append)
    assert seen == [unit, unit]
    assert (unit.folder / "note").stat().st_mtime_ns == changed


@pytest.mark.parametrize("name", ["note", "done.json"])
@pytest.mark.parametrize("content", [b"", b"\0" * 12, None], ids=["empty", "zeros", "missing"])
def test_what_a_crash_of_the_machine_damaged_is_done_again(tmp_path, name, content):
    unit = Note(tmp_path / "a")
    with Workers() as workers:
        perform_all(workers, [unit], ignore)
        if content is None:
            (unit.folder / name).unlink()
        else:
            (unit.folder / name).write_bytes(content)
        assert perform_all(workers, [unit], ignore) == []
    assert notes([unit])[0][0] == str(os.getpid())
    assert is_done(unit)


def test_no_job_at_all_is_refused():
    with pytest.raises(InputError, match="expected between 1 and 4,096 jobs, found 0"):
        Workers(0)
