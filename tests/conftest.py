"""What holds for every test: Ctrl-C can be sent, no disk is waited for, and what starts programs has a mark."""

import gc
import multiprocessing.process
import os
import signal
import sys
from collections.abc import Generator, Iterator
from typing import Any

import pytest

TIERS = ("process", "browser", "e2e", "slow")
"""The marks of tests that ``tox -e unit`` leaves out."""

UNMEASURED = ("models", "reports", "derive", "executors", "hub", "faults")
"""Folders of tests that do not count towards the floors of coverage, and are spared the third more that it costs."""

IN_PASSING = ("git", "uname", "lscpu", "fc-list")
"""What a run record asks; numpy.testing of numpy 2.0 asks the third, matplotlib on a new machine the last."""

started: list[str] = []
"""The programs that the running test has started so far."""


def note_start(event: str, details: tuple[Any, ...]) -> None:
    """An audit hook: remember every program that ``subprocess`` starts, but for those that are asked in passing."""
    if event == "subprocess.Popen" and (command := [str(word) for word in details[1]])[0] not in IN_PASSING:
        started.append(" ".join(command)[:80])


sys.addaudithook(note_start)


@pytest.fixture(autouse=True, scope="session")
def interruptible() -> Iterator[None]:
    """Under a parent that ignores SIGINT or SIGHUP (nohup, some CI) tests and their children would ignore them too."""
    inherited = {signal.SIGINT: signal.signal(signal.SIGINT, signal.default_int_handler)}
    if hasattr(signal, "SIGHUP"):  # nohup
        inherited[signal.SIGHUP] = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    for number, handler in inherited.items():
        signal.signal(number, handler)


@pytest.fixture(autouse=True, scope="session")
def no_fit_cache() -> Iterator[None]:
    """Nothing that an earlier test, or the user of this machine, has fitted is taken for this test's own."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("EXITBENCH_FIT_CACHE", "off")
        yield


@pytest.fixture(autouse=True, scope="session")
def no_waiting_for_the_disk() -> Iterator[None]:
    """An fsync waits milliseconds for the disk, tens of thousands of times in a session that no power cut follows."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


@pytest.fixture(autouse=True, scope="session")
def noted_workers() -> Iterator[None]:
    """Processes of ``multiprocessing`` raise no audit event, so their start is noted here."""
    start = multiprocessing.process.BaseProcess.start

    def noted(process: multiprocessing.process.BaseProcess) -> None:
        started.append(f"multiprocessing: {process.name}")
        start(process)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(multiprocessing.process.BaseProcess, "start", noted)
        yield


def pytest_itemcollected(item: pytest.Item) -> None:
    """Coverage is measured where it has a floor: by the tests of signals, benchmarks, cache and command line."""
    parts = item.path.parts
    if "tests" in parts and parts[parts.index("tests") + 1] in UNMEASURED:
        item.add_marker("no_cover")


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None]:
    """Modules are for good: the garbage collector does not look through them, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Fail a test that starts programs and has no mark of a tier: it would slow down ``tox -e unit``."""
    started.clear()
    yield
    if started and not any(item.get_closest_marker(tier) for tier in TIERS):
        pytest.fail(f"expected the mark 'process' on a test that starts programs, found none; started: {started[0]}")
