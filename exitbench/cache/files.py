"""Files of a cache: names that cannot leave their directory, and writes that are whole or absent.

Every change to the disk goes through :data:`disk`, one method per operation, so that tests can stop
a write at each of them.
"""

from __future__ import annotations

import errno
import hashlib
import os
import stat
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


def child(directory: Path, name: str) -> Path:
    """The regular file ``name`` directly inside ``directory``; anything else is refused.

    A name with a separator, a link that leads out of the directory, a device or a pipe is an
    InputError, so that an untrusted manifest can neither read elsewhere nor hang the reader.
    """
    if name != Path(name).name or name in {"", ".", ".."} or "\\" in name or "\0" in name:
        raise InputError(f"{directory}: expected a plain file name, found {name!r}, which leaves the directory")
    path = directory / name
    try:
        if path.is_symlink() and path.resolve(strict=True).parent != directory.resolve():
            raise InputError(f"{path}: expected a file inside the cache, found a link that leaves the directory")
        mode = path.stat().st_mode
    except FileNotFoundError:
        raise InputError(f"{path}: expected a file, found none") from None
    except (OSError, RuntimeError) as error:
        raise InputError(f"{path}: cannot be read: {str(error).lower()}") from None
    if not stat.S_ISREG(mode):
        raise InputError(f"{path}: expected a regular file, found something else")
    return path


def file_bytes(path: Path) -> bytes:
    """All bytes of a small file."""
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None


def sha256(path: Path) -> str:
    """The sha256 of a file's bytes, read in blocks."""
    digest = hashlib.sha256()
    buffer = bytearray(CHUNK)
    view = memoryview(buffer)
    try:
        with path.open("rb", buffering=0) as stream:
            while count := stream.readinto(view):
                digest.update(view[:count])
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {reason(error)}") from None
    return digest.hexdigest()
