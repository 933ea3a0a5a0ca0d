"""Reading the files of a cache: names that stay inside its directory, and every refusal of the system in one line."""

from __future__ import annotations

import hashlib
import stat
from pathlib import Path

from exitbench.atomic_files import reason
from exitbench.errors import InputError

CHUNK = 8 * 2**20


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


def refuse_changed(path: Path, expected: str) -> None:
    """An InputError unless the file's bytes have the sha256 that the manifest lists."""
    digest = sha256(path)
    if digest != expected:
        raise changed(path, expected, digest)


def changed(path: Path, expected: str, digest: str) -> InputError:
    """The error for a file whose sha256 is not the one that the manifest lists."""
    return InputError(f"{path}: changed: expected sha256 {expected[:16]}..., found {digest[:16]}...")
