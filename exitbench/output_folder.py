"""A folder that exitbench writes for its user: which files in it are exitbench's, and who is writing there now.

``.exitbench.json`` lists every file by who makes it, before it is written. Only listed files are ever removed or
replaced, so that whatever a user keeps in the same folder stays. The folder is locked while somebody writes to it; the
system gives up the lock of a process that has ended, however it ended.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import Any

from exitbench import atomic_files
from exitbench.atomic_files import partial_name, reason, write_text
from exitbench.errors import InputError
from exitbench.file_locks import lock_name

INVENTORY, LOCK = ".exitbench.json", ".exitbench.lock"
LEFTOVERS = {LOCK, partial_name(Path(INVENTORY)).name}
"""What a process may leave that was killed before it listed anything."""
RUN_RECORD, RUN_KEYS = "run.json", {"schema", "suite", "caches", "entries"}
VIEWS = "views"
"""Who makes what is shown of a run, which a new run removes with the results it shows."""
ASKED = "asked"
"""Who makes the single tables and figures that a user asks for; a new run removes them, too."""
UNITS, DRAFTS = ".units", ".views"
"""Folders for what is unfinished: the parts of a run, and tables and figures. Whoever has the claim empties them."""
NO_LINK = getattr(os, "O_NOFOLLOW", 0)
"""A lock that is a link would be made wherever it leads; Windows has no such flag."""
DEEPEST = 2
"""Parts of a listed name: a file, or a file of a folder."""

_claimed: dict[tuple[Path, int], OutputFolder] = {}
"""The folders that are locked by a thread of this process."""


class OutputFolder:
    """A claimed folder; ``files`` are the names that each maker has written there."""

    def __init__(self, path: Path, files: dict[str, list[str]]) -> None:
        self.path, self.files = path, files

    def begin(self, maker: str, names: Sequence[str], outdated: Sequence[str] = ()) -> None:
        """List what ``maker`` is about to write, after removing what it, and before that ``outdated`` makers, wrote.

        Files are removed in the order they were listed. Raises InputError, with nothing touched, where a name is taken
        by a file that is not exitbench's.
        """
        self._refuse_taken(names)
        try:
            for name in [name for stale in (*outdated, maker) for name in self.files.get(stale, [])]:
                self._remove(self.path / name)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be written: {reason(error)}") from error
        self.files = {other: kept for other, kept in self.files.items() if other not in outdated} | {maker: list(names)}
        self._write_inventory()

    def add(self, maker: str, names: Sequence[str]) -> None:
        """List what ``maker`` is about to write beside what it wrote before, of which nothing is removed.

        A name that any maker has listed stays listed there. Raises InputError as :meth:`begin` does.
        """
        self._refuse_taken(names)
        listed = self._listed()
        new = [name for name in dict.fromkeys(names) if name not in listed]
        if new:
            self.files = self.files | {maker: [*self.files.get(maker, []), *new]}
            self._write_inventory()

    def _listed(self) -> set[str]:
        return {name for earlier in self.files.values() for name in earlier}

    def _refuse_taken(self, names: Sequence[str]) -> None:
        listed = self._listed()
        for name in names:
            file = self.path / name
            if not self._is_inside(file):
                raise InputError(f"{file.parent}: expected a folder inside {self.path}, found a link to another place")
            if name not in listed and os.path.lexists(file):
                raise InputError(
                    f"{file}: expected no such file, or one that exitbench wrote; found another: "
                    "move it, or give another folder with --out"
                )

    def _write_inventory(self) -> None:
        write_text(self.path / INVENTORY, json.dumps({"files": self.files}, indent=1, sort_keys=True) + "\n")

    def _remove(self, file: Path) -> None:
        if not self._is_inside(file) or (file.is_dir() and not file.is_symlink()):
            return
        for path in (file, partial_name(file)):
            atomic_files.disk.remove(path)
        if file.parent != self.path:
            with suppress(OSError):  # files of somebody else are in it
                file.parent.rmdir()

    def _is_inside(self, file: Path) -> bool:
        """Whether a file lies in the folder itself: a folder from a stranger may hold links to anywhere."""
        return file.parent.resolve().is_relative_to(self.path.resolve())


@contextmanager
def claimed(path: Path, patience: float = 0.0) -> Iterator[OutputFolder]:
    """Lock a folder, making it where it is missing, and yield it with its inventory.

    Whoever else has it may take ``patience`` seconds to let it go.

    Raises InputError, with nothing touched, for a folder that is neither empty nor exitbench's own, and where another
    process or thread is writing. The thread that has claimed a folder may claim it again.
    """
    atomic_files.refuse_url(path)
    held = (path.resolve(), threading.get_ident())
    if held in _claimed:
        yield _claimed[held]
        return
    refuse_foreign(path)
    missing = [folder for folder in (path, *path.parents) if not folder.exists()]
    atomic_files.make_directory(path)
    try:
        with locked(path, patience):
            refuse_links(path)
            _claimed[held] = OutputFolder(path, read_inventory(path))
            try:
                yield _claimed[held]
            finally:
                del _claimed[held]
    finally:
        for folder in missing:
            with suppress(OSError):  # something was written
                folder.rmdir()


def refuse_foreign(path: Path) -> None:
    """Raise InputError for what is neither missing, empty nor a folder that exitbench has written to."""
    if path.exists() and not path.is_dir():
        raise InputError(f"{path}: expected a folder, or nothing, found a file")
    if not path.is_dir() or (path / INVENTORY).is_file() or _holds_run(path):
        return
    if others := sorted({item.name for item in path.iterdir()} - LEFTOVERS):
        raise InputError(
            f"{path}: expected an empty folder, or one that exitbench made, found {len(others)} other "
            f"{'file' if len(others) == 1 else 'files'} such as {others[0]!r}; give another folder with --out"
        )


def refuse_links(path: Path) -> None:
    """Raise InputError for a link where unfinished work lies: that would be written, and removed, wherever it leads."""
    for scratch in (path / UNITS, path / DRAFTS):
        below = (Path(folder) / name for folder, folders, files in os.walk(scratch) for name in (*folders, *files))
        for item in itertools.chain([scratch], below):  # what lies behind a link is not looked at
            if item.is_symlink():
                raise InputError(f"{item}: expected a file or folder inside {path}, or nothing, found a link")


def read_inventory(path: Path) -> dict[str, list[str]]:
    """The files that a folder's inventory lists, by maker; none where it has no inventory."""
    file = path / INVENTORY
    if not file.is_file():
        return {}
    try:
        files = json.loads(file.read_bytes())["files"]
        good = all(
            isinstance(maker, str) and all(isinstance(name, str) and _is_plain(name) for name in names)
            for maker, names in files.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        good = False
    if not good:
        raise InputError(f"{file}: expected the list of files that exitbench writes, found something else")
    return {maker: list(names) for maker, names in files.items()}


def _is_plain(name: str) -> bool:
    parts = PurePosixPath(name).parts
    return 0 < len(parts) <= DEEPEST and not {"/", "..", ""} & set(parts) and not set("\\:\0") & set(name)


def _holds_run(path: Path) -> bool:
    """Whether a folder without an inventory holds a run: result files that were copied from somewhere."""
    try:
        record: Any = json.loads((path / RUN_RECORD).read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(record, dict) and record.keys() >= RUN_KEYS


@contextmanager
def locked(path: Path, patience: float = 0.0) -> Iterator[None]:
    """Hold the lock of a folder that exists; InputError where another process or thread has it, and keeps it."""
    file, end = path / LOCK, time.monotonic() + patience
    try:
        while True:
            descriptor = lock_name(file, lambda: os.open(file, os.O_RDWR | os.O_CREAT | NO_LINK, 0o644))
            if descriptor is not None or time.monotonic() >= end:
                break
            time.sleep(0.05)
    except OSError as error:
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error
    if descriptor is None:
        raise InputError(f"{path}: another exitbench is writing to this folder; wait for it, or give another one")
    try:
        yield
    finally:
        if sys.platform != "win32":  # where an open file cannot be removed, it stays
            file.unlink(missing_ok=True)
        os.close(descriptor)
