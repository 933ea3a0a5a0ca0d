"""Ctrl-C at every single step of a write: nothing temporary is left, and the file is the old or the new one."""

import signal
import sys
import threading
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from exitbench import atomic_files, file_locks, stop_signals
from exitbench.atomic_files import whole_folder, write_text
from exitbench.benchmarks.baselines import scratch_folder as scratch
from exitbench.stop_signals import deferred_stops

STEPS = 400
"""More than any write here has."""


def stopped_at(step: int, files: set[str | None], action: Callable[[], None]) -> bool:
    """Send SIGINT to this process before the given line of these files, counted as they run; False if there is none."""
    count = 0

    def trace(frame: FrameType, event: str, _detail: Any) -> Any:
        nonlocal count
        if frame.f_code.co_filename in files and event == "line":
            count += 1
            if count == step:
                signal.raise_signal(signal.SIGINT)
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:  # no context manager: their lines count as well
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return count >= step


WRITING = {atomic_files.__file__, file_locks.__file__, stop_signals.__file__, contextmanager.__code__.co_filename}


def test_ctrl_c_at_any_step_leaves_the_old_or_the_new_file_and_nothing_else(tmp_path: Path) -> None:
    contents = set()
    for step in range(1, STEPS):
        folder = tmp_path / str(step)
        folder.mkdir()
        (folder / "a").write_text("old")
        reached = stopped_at(step, WRITING, lambda file=folder / "a": write_text(file, "new"))  # type: ignore[misc]
        assert [path.name for path in folder.iterdir()] == ["a"], step
        contents.add((folder / "a").read_text())
        if not reached:
            break
    assert contents == {"old", "new"}
    assert 20 < step < STEPS - 1


@pytest.mark.long
def test_ctrl_c_at_any_step_leaves_the_old_or_the_new_folder_and_nothing_else(tmp_path: Path) -> None:
    def replace_folder(folder: Path) -> None:
        with whole_folder(folder / "a") as temporary:
            (temporary / "text").write_text("new")

    contents = set()
    for step in range(1, STEPS):
        folder = tmp_path / str(step)
        (folder / "a").mkdir(parents=True)
        (folder / "a" / "text").write_text("old")
        reached = stopped_at(step, WRITING, lambda folder=folder: replace_folder(folder))  # type: ignore[misc]
        assert [path.name for path in folder.iterdir()] == ["a"], step
        contents.add((folder / "a" / "text").read_text())
        if not reached:
            break
    assert contents == {"old", "new"}
    assert 20 < step < STEPS - 1


def test_ctrl_c_at_any_step_takes_a_scratch_folder_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scratch.tempfile, "tempdir", str(tmp_path))

    def use() -> None:
        with scratch.scratch_folder() as folder:
            (folder / "file").touch()

    files = {scratch.__file__, *WRITING}
    for step in range(1, STEPS):
        reached = stopped_at(step, files, use)
        assert [*tmp_path.iterdir()] == [], step
        if not reached:
            break
    assert 10 < step < STEPS - 1


def test_a_signal_that_was_deferred_is_answered_once_at_the_end() -> None:
    reached = []
    with pytest.raises(KeyboardInterrupt), deferred_stops():
        signal.raise_signal(signal.SIGINT)
        with deferred_stops():
            signal.raise_signal(signal.SIGINT)
        reached.append("the end of the block")
    assert reached == ["the end of the block"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_thread_defers_nothing() -> None:
    handlers = []

    def work() -> None:
        with deferred_stops():
            handlers.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert handlers == [signal.getsignal(signal.SIGINT)]


def test_an_ignored_signal_stays_ignored() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with deferred_stops():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)
