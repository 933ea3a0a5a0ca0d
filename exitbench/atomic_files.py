"""Atomic writes: temporary name, flush, fsync, rename; whole or absent.

Every change to the disk goes through :data:`disk`, one method per operation, so that tests can stop
a write at each of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable
from pathlib import Path

from exitbench.errors import InputError

PARTIAL = ".partial"
CHUNK = 8 * 2**20


class Disk:
    """The operations a write is made of."""

    def make_directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)

    def create(self, path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)

    def write(self, descriptor: int, block: memoryview) -> int:
        return os.write(descriptor, block)

    def flush(self, descriptor: int) -> None:
        os.fsync(descriptor)

    def close(self, descriptor: int) -> None:
        os.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def flush_directory(self, path: Path) -> None:
        descriptor = os.open(path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)


disk = Disk()


def partial_name(path: Path) -> Path:
    """The temporary name under which ``path`` is written."""
    return path.with_name(f".{path.name}{PARTIAL}")


def write_whole(path: Path, blocks: Iterable[bytes | memoryview]) -> str:
    """Write the blocks to ``path``, all of them or nothing, and return their sha256.

    The bytes go to a temporary name, are flushed, and take their final name in one step. On an
    error the temporary file is removed and whatever had the final name before is still there.
    """
    temporary = partial_name(path)
    digest = hashlib.sha256()
    try:
        descriptor = disk.create(temporary)
        try:
            for block in blocks:
                view = memoryview(block).cast("B")
                digest.update(view)
                for start in range(0, len(view), CHUNK):
                    _write_all(descriptor, view[start : start + CHUNK])
            disk.flush(descriptor)
        finally:
            disk.close(descriptor)
        disk.rename(temporary, path)
        disk.flush_directory(path.parent)
    except OSError as error:
        _forget(temporary)
        raise InputError(f"{path}: cannot be written: {reason(error)}") from error
    except Exception:
        _forget(temporary)
        raise
    return digest.hexdigest()


def _write_all(descriptor: int, view: memoryview) -> None:
    while view:
        view = view[disk.write(descriptor, view) :]


def _forget(temporary: Path) -> None:
    try:
        disk.remove(temporary)
    except OSError:
        # The disk that refused the write may refuse this too; readers ignore temporary names.
        return


def make_directory(path: Path) -> None:
    """Create ``path`` and its parents, or say in one line why not."""
    try:
        disk.make_directory(path)
    except OSError as error:
        raise InputError(f"{path}: the directory cannot be made: {reason(error)}") from error


def reason(error: OSError) -> str:
    """Why the system refused, in words."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return "no space left on the disk"
    return (error.strerror or str(error)).lower()
