"""A write that is stopped anywhere: no reader accepts what it left, and resuming ends in the same bytes."""

import errno
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from exitbench import atomic_files
from exitbench.cache import Cache, compact, synthetic_cache
from exitbench.errors import InputError

SIZE = {"rows": 45, "layers": 2, "classes": 2, "width": 4, "shard_rows": 20}


class Killed(BaseException):
    """Like a SIGKILL: nothing may catch it as an ordinary error."""


class FailingDisk(atomic_files.Disk):
    """A disk that stops at one operation: half of it is done, or all of it and the news is lost."""

    def __init__(self, stop_at: int, *, after: bool = False, error: BaseException | None = None) -> None:
        self.left, self.after, self.error = stop_at, after, error or Killed()
        self.operations: list[str] = []
        self.counting = threading.Lock()

    def _stop(self, name: str) -> bool:
        with self.counting:  # files of a folder are flushed by several threads
            self.operations.append(name)
            self.left -= 1
            return self.left == 0

    def write(self, descriptor: int, block: memoryview) -> int:
        if self._stop("write"):
            super().write(descriptor, block if self.after else block[: len(block) // 2])
            raise self.error
        return super().write(descriptor, block)


def _stopping(name: str):  # type: ignore[no-untyped-def]
    def operation(self: FailingDisk, *arguments: object) -> object:
        stop = self._stop(name)
        result = getattr(atomic_files.Disk, name)(self, *arguments) if not stop or self.after else None
        if stop:
            raise self.error
        return result

    return operation


for operation in ("make_directory", "create", "flush", "close", "rename", "remove"):
    setattr(FailingDisk, operation, _stopping(operation))


def content(path: Path) -> dict[str, bytes]:
    return {item.name: item.read_bytes() for item in sorted(path.iterdir())}


VERSION_2 = {
    "widths": [4, 6],
    "costs": [1.0, 3.0],
    "outputs": ["lte", "hazard"],
    "group_rows": 7,
    "labelled": False,
    "role": "train",
}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return content(synthetic_cache(tmp_path_factory.mktemp("whole") / "cache", **SIZE))


def operations_of_a_whole_write(path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    counting = FailingDisk(-1)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "disk", counting)
        synthetic_cache(path, **SIZE)
    return counting.operations


@pytest.mark.long
def test_stopped_at_every_file_operation_it_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: dict[str, bytes]
) -> None:
    operations = operations_of_a_whole_write(tmp_path / "counted", monkeypatch)
    assert {"make_directory", "create", "write", "flush", "close", "rename"} <= set(operations)
    points = [(k, after) for k in range(1, len(operations) + 1) for after in (False, True)]
    assert len(points) >= 50
    for k, after in points:
        path = tmp_path / f"stopped-{k}-{after}"
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "disk", FailingDisk(k, after=after))
            with pytest.raises(Killed):
                synthetic_cache(path, **SIZE)
        try:
            Cache(path)
        except InputError:
            synthetic_cache(path, **SIZE)
        # Accepted before the resume only if the last word, the completing rename, was already in place.
        assert content(path) == uninterrupted, f"stopped {'after' if after else 'in'} {operations[k - 1]} ({k})"


@pytest.mark.long
def test_a_cache_of_version_2_stopped_at_every_file_operation_resumes_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    size = SIZE | VERSION_2
    expected = content(synthetic_cache(tmp_path / "whole", **size))
    counting = FailingDisk(-1)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "disk", counting)
        synthetic_cache(tmp_path / "counted", **size)
    for k in range(1, len(counting.operations) + 1):
        path = tmp_path / f"stopped-{k}"
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "disk", FailingDisk(k, after=k % 2 == 0))
            with pytest.raises(Killed):
                synthetic_cache(path, **size)
        if not _accepted(path):
            synthetic_cache(path, **size)
        assert content(path) == expected, f"stopped at {counting.operations[k - 1]} ({k})"


@pytest.mark.long
def test_stopped_twice_it_still_resumes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: dict[str, bytes]
) -> None:
    total = len(operations_of_a_whole_write(tmp_path / "counted", monkeypatch))
    chance = random.Random(0)
    for attempt in range(15):
        path = tmp_path / str(attempt)
        while True:
            disk = FailingDisk(chance.randint(1, total), after=chance.random() < 0.5)
            with monkeypatch.context() as patch:
                patch.setattr(atomic_files, "disk", disk)
                try:
                    synthetic_cache(path, **SIZE)
                except Killed:
                    continue
                except InputError as error:
                    assert "complete one" in str(error)
            break
        assert content(path) == uninterrupted


@pytest.mark.long
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EDQUOT])
def test_a_disk_that_refuses_is_one_clear_line_and_nothing_is_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uninterrupted: dict[str, bytes], number: int
) -> None:
    total = len(operations_of_a_whole_write(tmp_path / "counted", monkeypatch))
    for k in range(1, total + 1, 3):
        path = tmp_path / f"{number}-{k}"
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "disk", FailingDisk(k, error=OSError(number, os.strerror(number))))
            with pytest.raises(InputError) as caught:
                synthetic_cache(path, **SIZE)
        assert "cannot be" in str(caught.value)
        assert "\n" not in str(caught.value)
        if number in (errno.ENOSPC, errno.EDQUOT):
            assert "no space left" in str(caught.value)
        assert not list(path.glob(".*partial")) if path.exists() else True
        if not _accepted(path):
            synthetic_cache(path, **SIZE)
        assert content(path) == uninterrupted


def test_a_really_full_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """/dev/full accepts an open and refuses every write, as a full disk does."""
    if not Path("/dev/full").exists():
        pytest.skip("this system has no /dev/full")
    create = atomic_files.Disk.create

    class Full(atomic_files.Disk):
        def create(self, path: Path) -> int:
            os.close(create(self, path))
            return os.open("/dev/full", os.O_WRONLY)

    monkeypatch.setattr(atomic_files, "disk", Full())
    with pytest.raises(InputError, match="no space left on the disk"):
        synthetic_cache(tmp_path / "c", **SIZE)
    assert not list((tmp_path / "c").iterdir())


def test_a_target_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("precious")
    with pytest.raises(InputError, match="the directory cannot be made: not a directory"):
        synthetic_cache(tmp_path / "file" / "cache", **SIZE)
    assert (tmp_path / "file").read_text() == "precious"


PROGRAM = """
import sys
from exitbench.cache import synthetic_cache
print("ready", flush=True)
synthetic_cache(sys.argv[1], rows=1500, layers=4, classes=2, width=64, shard_rows=100)
"""


@pytest.mark.process
def test_killed_by_a_real_signal_it_resumes_to_the_same_bytes(tmp_path: Path) -> None:
    size = {"rows": 1500, "layers": 4, "classes": 2, "width": 64, "shard_rows": 100}
    expected = content(synthetic_cache(tmp_path / "whole", **size))
    chance = random.Random(1)
    kills = 0
    for attempt in range(20):
        path = tmp_path / f"killed-{attempt}"
        running = subprocess.Popen([sys.executable, "-c", PROGRAM, str(path)], stdout=subprocess.PIPE, text=True)
        assert running.stdout is not None
        running.stdout.readline()
        shards = chance.randint(0, 12)
        while running.poll() is None and not (path / f"shard-{shards:05d}.safetensors").exists():
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.02))
        running.send_signal(signal.SIGKILL)
        killed = running.wait() == -signal.SIGKILL
        running.stdout.close()
        if not killed:
            continue
        kills += 1
        if not _accepted(path):
            synthetic_cache(path, **size)
        assert content(path) == expected
        if kills == 5:
            break
    assert kills == 5


def _accepted(path: Path) -> bool:
    try:
        Cache(path)
    except InputError:
        return False
    return True


@pytest.mark.long
def test_a_compact_copy_that_is_stopped_leaves_no_target_and_can_be_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = synthetic_cache(tmp_path / "source", **SIZE)
    compact(source, tmp_path / "expected")
    counting = FailingDisk(-1)
    with monkeypatch.context() as patch:
        patch.setattr(atomic_files, "disk", counting)
        compact(source, tmp_path / "counted")
    for k in range(1, len(counting.operations) + 1):
        target = tmp_path / f"target-{k}"
        with monkeypatch.context() as patch:
            patch.setattr(atomic_files, "disk", FailingDisk(k))
            with pytest.raises(Killed):
                compact(source, target)
        if not target.exists():
            compact(source, target)
        assert content(target) == content(tmp_path / "expected")


@pytest.mark.parametrize("stop_at", [1, 4, 9, 20])
def test_a_compact_copy_on_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stop_at: int
) -> None:
    source = synthetic_cache(tmp_path / "source", **SIZE)
    before = content(source)
    monkeypatch.setattr(
        atomic_files, "disk", FailingDisk(stop_at, error=OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    )
    with pytest.raises(InputError, match="no space left on the disk"):
        compact(source, tmp_path / "target")
    assert {path.name for path in tmp_path.iterdir()} == {"source"}
    assert content(source) == before


def test_the_folder_around_a_compact_copy_is_flushed_once_the_copy_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, target = synthetic_cache(tmp_path / "source", **SIZE), tmp_path / "target"
    steps: list[tuple[str, Path]] = []

    class Recording(atomic_files.Disk):
        def flush(self, path: Path) -> None:
            steps.append(("flush", path))
            super().flush(path)

        def rename(self, origin: Path, name: Path) -> None:
            steps.append(("rename", name))
            super().rename(origin, name)

    monkeypatch.setattr(atomic_files, "disk", Recording())
    compact(source, target)
    named = steps.index(("rename", target))
    assert steps[named + 1 :] == [("flush", tmp_path)]
    partial = atomic_files.partial_name(target)
    assert {("flush", partial), *(("flush", partial / path.name) for path in target.iterdir())} <= set(steps[:named])


def test_a_compact_copy_that_cannot_take_its_name_is_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = synthetic_cache(tmp_path / "source", **SIZE)

    class NoDirectoryRename(atomic_files.Disk):
        def rename(self, origin: Path, target: Path) -> None:
            if origin.is_dir():
                raise OSError(errno.EIO, "Input/output error")
            super().rename(origin, target)

    monkeypatch.setattr(atomic_files, "disk", NoDirectoryRename())
    with pytest.raises(InputError, match="target: cannot be written: input/output error"):
        compact(source, tmp_path / "target")
    assert {path.name for path in tmp_path.iterdir()} == {"source"}
