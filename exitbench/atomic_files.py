"""Atomic writes: temporary name, flush, fsync, rename; a file or a folder is there whole or not at all.

Everything that exitbench writes for its user goes through this module: bytes (:func:`write_whole`), a text
(:func:`write_text`), and what a library writes itself (:func:`whole_file`, :func:`whole_folder`).
The steps go through :data:`disk`, one method per operation, so that tests can stop a write at each of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from exitbench.errors import InputError
from exitbench.file_locks import lock_name
from exitbench.stop_signals import deferred_stops

PARTIAL = ".partial"
NOT_LOCKED = -1
"""In the place of a descriptor where nothing can be locked."""

CROWDED = (errno.EMFILE, errno.ENFILE)
"""Reasons of a system that has no more open files to give."""

SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.ASCII)
"""How a URL begins; a drive of Windows has one letter."""

CHUNK = 8 * 2**20
FLUSHING_THREADS = 8
"""fsync waits for the disk's journal, which takes many files at once: 100 small files in 20 ms instead of 250 ms."""


class Disk:
    """The operations a write is made of."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def write(self, descriptor: int, block: memoryview) -> int:
        return os.write(descriptor, block)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def flush(self, path: Path) -> None:
        """fsync a file's bytes, or the names in a folder."""
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        """Remove a file, or a folder with all that is in it, if it is there."""
        if not path.is_dir() or path.is_symlink():
            path.unlink(missing_ok=True)
            return
        try:
            shutil.rmtree(path)
        except OSError as error:
            if error.errno not in CROWDED:
                raise
            _remove_step_by_step(path)


disk = Disk()


def partial_name(path: Path) -> Path:
    """The temporary name under which ``path`` is written."""
    return path.with_name(f".{path.name}{PARTIAL}")


def write_whole(path: Path, blocks: Iterable[bytes | memoryview]) -> str:
    """Write the blocks to ``path``, all of them or nothing, and return their sha256."""
    digest = hashlib.sha256()
    with whole_file(path) as temporary:
        descriptor = disk.create(temporary)
        try:
            for block in blocks:
                view = memoryview(block).cast("B")
                digest.update(view)
                for start in range(0, len(view), CHUNK):
                    _write_all(descriptor, view[start : start + CHUNK])
        finally:
            disk.close(descriptor)
    return digest.hexdigest()


def write_text(path: Path, text: str) -> None:
    """Write ``text`` to ``path`` in UTF-8, its line ends as they are, all of it or nothing."""
    write_whole(path, [text.encode()])


@contextmanager
def whole_file(path: Path) -> Iterator[Path]:
    """The temporary name to write ``path`` under; when the block ends, the file is flushed and takes its final name.

    On an error the temporary file is removed, and whatever had the final name before is still there; one of the
    system becomes an InputError, and so does another process that is writing the same file.
    """
    temporary = partial_name(path)

    def opened() -> int:
        _remove_link(temporary)
        return os.open(temporary, os.O_RDWR | os.O_CREAT, 0o644)

    with _held(temporary, path, opened):
        yield temporary
        disk.flush(temporary)
        disk.rename(temporary, path)
        disk.flush(path.parent)


@contextmanager
def whole_folder(path: Path, *, resumable: bool = False) -> Iterator[Path]:
    """An empty temporary folder; when the block ends, it is flushed with all that is in it and takes the name ``path``.

    A folder of that name is replaced: it is moved aside, and removed after the new one has its name. Errors are
    treated as by :func:`whole_file`. A ``resumable`` one is not emptied at the start nor removed on an error: the
    block finds what an earlier one left there.
    """
    temporary, earlier = partial_name(path), partial_name(path.with_name(f"{path.name}.earlier"))

    def opened() -> int:
        _remove_link(temporary)
        disk.make_directory(temporary)
        return os.open(temporary, os.O_RDONLY)

    with _held(temporary, path, opened, keep=resumable):
        for leftover in [] if resumable else temporary.iterdir():  # of a killed process
            disk.remove(leftover)
        if earlier.is_dir() and not path.exists():  # it was killed between the two names
            disk.rename(earlier, path)
        yield temporary
        _flush_below(temporary)
        with deferred_stops():
            _swap(temporary, path, earlier)


def _swap(temporary: Path, path: Path, earlier: Path) -> None:
    """Give a folder the name of another one, which is removed."""
    if path.is_dir():
        disk.remove(earlier)
        disk.rename(path, earlier)
    try:
        disk.rename(temporary, path)
    except OSError:
        if earlier.is_dir():
            earlier.replace(path)
        raise
    disk.flush(path.parent)
    disk.remove(earlier)


def move_files(source: Path, target: Path, *, last: str = "") -> None:
    """Flush the files of ``source`` and give each its name in the folder ``target``, whose other files stay.

    The file named ``last`` comes after all others: what says that they are there.
    """
    try:
        disk.make_directory(target)
        _flush_below(source)
        for file in sorted(source.iterdir(), key=lambda file: (file.name == last, file.name)):
            if file.name == last:
                disk.flush(target)
            disk.rename(file, target / file.name)
        disk.flush(target)
    except OSError as error:
        raise InputError(f"{target}: cannot be written: {reason(error)}") from error


@contextmanager
def _held(temporary: Path, path: Path, opened: Callable[[], int], *, keep: bool = False) -> Iterator[None]:
    """Keep every other process away from a temporary name, which goes on being held under its final one.

    What has that name is removed on an error, and where the block is never begun: an interrupt may come that early.
    With ``keep`` it stays, unless it is an empty folder.
    Windows renames nothing that is open, so there two processes are not kept apart.
    """
    refuse_url(path)
    descriptor: int | None = None
    try:
        with deferred_stops():
            descriptor = lock_name(temporary, opened) if sys.platform != "win32" else NOT_LOCKED
        if descriptor is None:
            raise InputError(f"{path}: another exitbench is writing it; wait for it, or give another name")
        yield
    except OSError as error:
        _remove(temporary, descriptor, keep=keep)
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error
    except BaseException:  # also GeneratorExit, of a block that was not begun
        _remove(temporary, descriptor, keep=keep)
        raise
    finally:
        if descriptor is not None and descriptor != NOT_LOCKED:
            os.close(descriptor)


def refuse_url(path: Path) -> None:
    """Raise InputError for a path that was made of a URL, which would become folders of odd names here.

    >>> refuse_url(Path("s3://bucket/name"))
    Traceback (most recent call last):
    exitbench.errors.InputError: expected a path of this machine, found the URL s3://bucket/name
    """
    first, *others = path.parts or (".",)
    if SCHEME.fullmatch(first) and others:
        raise InputError(f"expected a path of this machine, found the URL {first}//{'/'.join(others)}")


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[disk.write(descriptor, view) :]


def remove_folders(folder: Path) -> None:
    """Remove a folder with the many folders in it, some at once: the disk's journal takes them together, too."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(FLUSHING_THREADS) as threads:
        list(threads.map(disk.remove, list(folder.iterdir())))  # the list raises what kept one from being removed
    disk.remove(folder)


def _flush_below(folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    paths = [*folder.rglob("*"), folder]
    with ThreadPoolExecutor(FLUSHING_THREADS) as threads:
        flushed = list(threads.map(_flushed, paths))
    for path, done in zip(paths, flushed, strict=True):
        if not done:  # too many at once; one at a time may do
            disk.flush(path)


def _flushed(path: Path) -> bool:
    """Flush a file or folder; False where the system has no more open files to give."""
    try:
        disk.flush(path)
    except OSError as error:
        if error.errno not in CROWDED:
            raise
        return False
    return True


def _remove_step_by_step(folder: Path) -> None:
    """Remove a folder with one open file at a time, where :func:`shutil.rmtree` needs some for every level."""
    with os.scandir(folder) as entries:
        below = [(Path(entry.path), entry.is_dir(follow_symlinks=False)) for entry in entries]
    for path, is_folder in below:
        if is_folder:
            _remove_step_by_step(path)
        else:
            path.unlink(missing_ok=True)
    folder.rmdir()


def _remove_link(temporary: Path) -> None:
    """A temporary name that leads elsewhere is nobody's unfinished work."""
    if temporary.is_symlink():
        disk.remove(temporary)


def _remove(temporary: Path, descriptor: int | None, *, keep: bool) -> None:
    """Remove what is written under a temporary name, unless another process holds it or it is to be resumed."""
    if descriptor is None or (keep and any(temporary.iterdir())):
        return
    try:
        disk.remove(temporary)
    except OSError:
        # The disk that refused the write may refuse this too; readers ignore temporary names.
        return


def make_directory(path: Path) -> None:
    """Create ``path`` and its parents, or raise an InputError that gives the reason."""
    refuse_url(path)
    try:
        disk.make_directory(path)
    except OSError as error:
        raise InputError(f"{path}: the directory cannot be made: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Why the system refused, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk"
    return (error.strerror or str(error)).lower()
