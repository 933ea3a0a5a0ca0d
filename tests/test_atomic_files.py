"""Whole or absent: what is written has its name only when all of it is on the disk."""

import errno
import os
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from exitbench import atomic_files
from exitbench.atomic_files import Disk, remove_folders, whole_file, whole_folder, write_text, write_whole
from exitbench.errors import InputError


class RecordingDisk(Disk):
    """Notes the flushes and renames, with the names they concern."""

    def __init__(self) -> None:
        self.steps: list[tuple[str, str]] = []

    def flush(self, path: Path) -> None:
        self.steps.append(("flush", path.name))
        super().flush(path)

    def rename(self, source: Path, target: Path) -> None:
        self.steps.append(("rename", target.name))
        super().rename(source, target)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> Iterator[RecordingDisk]:
    disk = RecordingDisk()
    monkeypatch.setattr(atomic_files, "disk", disk)
    yield disk


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_text_is_written_in_utf_8_with_its_own_line_ends(tmp_path: Path) -> None:
    write_text(tmp_path / "a.txt", "é\r\nb\n")
    assert (tmp_path / "a.txt").read_bytes() == b"\xc3\xa9\r\nb\n"
    assert names(tmp_path) == ["a.txt"]


def test_a_file_is_flushed_before_it_has_its_name_and_its_folder_after(tmp_path: Path, recorded: RecordingDisk) -> None:
    with whole_file(tmp_path / "a") as temporary:
        temporary.write_text("by a library")
        assert not (tmp_path / "a").exists()
    assert recorded.steps == [("flush", ".a.partial"), ("rename", "a"), ("flush", tmp_path.name)]


def test_a_folder_is_flushed_with_all_its_files_before_it_has_its_name(tmp_path: Path, recorded: RecordingDisk) -> None:
    with whole_folder(tmp_path / "model") as temporary:
        (temporary / "inner").mkdir()
        (temporary / "inner" / "deep").touch()
        (temporary / "flat").touch()
    flushed = {name for step, name in recorded.steps[:4] if step == "flush"}
    assert flushed == {"inner", "deep", "flat", ".model.partial"}
    assert recorded.steps[4:] == [("rename", "model"), ("flush", tmp_path.name)]


def test_a_folder_takes_the_place_of_the_earlier_one_whole(tmp_path: Path) -> None:
    for content in ("old", "new"):
        with whole_folder(tmp_path / "model") as temporary:
            (temporary / content).touch()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["new"]


def test_the_earlier_folder_comes_back_when_the_new_one_cannot_take_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with whole_folder(tmp_path / "model") as temporary:
        (temporary / "old").touch()

    class NoNewName(Disk):
        def rename(self, source: Path, target: Path) -> None:
            if target.name == "model":
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            super().rename(source, target)

    monkeypatch.setattr(atomic_files, "disk", NoNewName())
    refused = pytest.raises(InputError, match="model: cannot be written: input/output error")
    with refused, whole_folder(tmp_path / "model") as temporary:
        (temporary / "new").touch()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["old"]


def test_what_a_killed_process_left_is_in_nobodys_way(tmp_path: Path) -> None:
    for leftover in (".model.partial", ".model.earlier.partial", "model"):
        (tmp_path / leftover).mkdir()
        (tmp_path / leftover / "stale").touch()
    with whole_folder(tmp_path / "model") as temporary:
        (temporary / "new").touch()
    assert names(tmp_path) == ["model"]
    assert names(tmp_path / "model") == ["new"]


def test_two_that_write_the_same_file_do_not_mix(tmp_path: Path) -> None:
    with whole_file(tmp_path / "a") as temporary:
        temporary.write_text("first")
        with pytest.raises(InputError, match="a: another exitbench is writing it"):
            write_text(tmp_path / "a", "second")
        assert temporary.read_text() == "first"
    assert (tmp_path / "a").read_text() == "first"
    write_text(tmp_path / "a", "second")
    assert (tmp_path / "a").read_text() == "second"
    assert names(tmp_path) == ["a"]


def test_two_that_write_the_same_folder_do_not_mix(tmp_path: Path) -> None:
    with whole_folder(tmp_path / "model") as temporary:
        (temporary / "first").touch()
        refused = pytest.raises(InputError, match="model: another exitbench is writing it")
        with refused, whole_folder(tmp_path / "model") as second:
            (second / "second").touch()
        assert names(temporary) == ["first"]
    assert names(tmp_path / "model") == ["first"]
    assert names(tmp_path) == ["model"]


def test_a_temporary_name_that_leads_elsewhere_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").write_text("kept")
    (tmp_path / ".model.partial").symlink_to("elsewhere")
    (tmp_path / ".a.partial").symlink_to("elsewhere/precious")
    with whole_folder(tmp_path / "model") as temporary:
        (temporary / "new").touch()
    write_text(tmp_path / "a", "new")
    assert (tmp_path / "elsewhere" / "precious").read_text() == "kept"
    assert names(tmp_path) == ["a", "elsewhere", "model"]


@pytest.mark.parametrize("stop", [ZeroDivisionError, KeyboardInterrupt, InputError])
def test_an_error_keeps_the_old_and_removes_the_new(tmp_path: Path, stop: type[BaseException]) -> None:
    write_text(tmp_path / "a", "old")
    with whole_folder(tmp_path / "b") as temporary:
        (temporary / "old").touch()
    with pytest.raises(stop), whole_file(tmp_path / "a") as temporary:
        temporary.write_text("half")
        raise stop("stopped")
    with pytest.raises(stop), whole_folder(tmp_path / "b") as temporary:
        (temporary / "half").touch()
        raise stop("stopped")

    def blocks() -> Iterator[bytes]:
        yield b"half"
        raise stop("stopped")

    with pytest.raises(stop):
        write_whole(tmp_path / "a", blocks())
    assert names(tmp_path) == ["a", "b"]
    assert (tmp_path / "a").read_text() == "old"
    assert names(tmp_path / "b") == ["old"]


def test_an_error_of_the_system_is_one_line_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"none/a: cannot be written: no such file or directory$"):
        write_text(tmp_path / "none" / "a", "text")
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"file/model: cannot be written: "), whole_folder(tmp_path / "file" / "model"):
        pass


def test_files_are_moved_with_the_one_that_speaks_for_them_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "source").mkdir()
    for name in "abc":
        (tmp_path / "source" / name).touch()
    renamed = []
    monkeypatch.setattr(atomic_files.disk, "rename", lambda source, target: renamed.append(target.name))
    atomic_files.move_files(tmp_path / "source", tmp_path, last="a")
    assert renamed == ["b", "c", "a"]


def test_few_open_files_are_enough_to_flush_a_folder_and_to_remove_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    (folder / "deep" / "deeper").mkdir(parents=True)
    (folder / "deep" / "link").symlink_to(tmp_path)
    (folder / "deep" / "deeper" / "file").touch()
    flushed = []

    def flush(path: Path) -> None:
        if threading.current_thread() is not threading.main_thread():
            raise OSError(errno.EMFILE, "too many open files")
        flushed.append(path)

    def rmtree(path: Path) -> None:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(atomic_files.disk, "flush", flush)
    monkeypatch.setattr(shutil, "rmtree", rmtree)
    atomic_files.move_files(folder / "deep" / "deeper", tmp_path / "target")
    assert {path.name for path in flushed} == {"file", "deeper", "target"}
    atomic_files.disk.remove(folder)
    assert {path.name for path in tmp_path.iterdir()} == {"target"}


def test_many_folders_are_removed_with_their_files_and_what_cannot_be_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(30):
        (tmp_path / "units" / f"unit-{number}" / "deep").mkdir(parents=True)
        (tmp_path / "units" / f"unit-{number}" / "deep" / "file").write_text("x")
    (tmp_path / "units" / "note").write_text("a file among them")

    class StuckDisk(Disk):
        def remove(self, path: Path) -> None:
            if path.name == "unit-7":
                raise OSError(errno.EIO, "input/output error")
            super().remove(path)

    with monkeypatch.context() as patch, pytest.raises(OSError, match="input/output error"):
        patch.setattr(atomic_files, "disk", StuckDisk())
        remove_folders(tmp_path / "units")
    assert (tmp_path / "units" / "unit-7" / "deep" / "file").exists()
    remove_folders(tmp_path / "units")
    assert names(tmp_path) == []
