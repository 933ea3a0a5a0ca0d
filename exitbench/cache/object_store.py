"""Caches on object stores: copied to a folder of this machine, which is named after the manifest's hash.

Any URL that pyarrow or fsspec opens names a cache, as ``s3://bucket/caches/my-cache``. The manifest is read first; its
sha256 pins every other file, so a copy of the same bytes is used again and one of other bytes never is. Copies are
memory-mapped like any cache. Together they take at most :data:`VARIABLE` (20GB): the ones used longest ago go first,
and none that a process which still runs has asked for.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from exitbench.atomic_files import make_directory, whole_folder, write_whole
from exitbench.cache.format.manifest import MANIFEST, FileEntry
from exitbench.cache.format.manifest_file import LARGEST_MANIFEST, parse_manifest
from exitbench.errors import InputError, one_line
from exitbench.file_locks import lock
from exitbench.memory_budget import parse_memory
from exitbench.output_folder import locked
from exitbench.progress import ProgressBar

VARIABLE, DEFAULT_SIZE = "EXITBENCH_COPIES", "20GB"
"""The size that all copies may have together."""
FOLDER = "EXITBENCH_COPIES_DIR"
"""Where the copies lie, instead of the user's folder for such things."""
USERS = ".users"
"""Among the copies: a file for each process that uses some, with their names, locked for as long as it runs."""
PATIENCE = 3600.0
"""Seconds to wait for another process that copies the same cache."""
LAST = "run.json"
"""What says that a run is complete."""
BLOCK = 2**22
URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII)
CREDENTIALS = re.compile(
    r"[a-z][a-z0-9+.-]*://(?:[^/@]*:.*@|.*[?&][^=&]*(?:secret|token|password|key|sig|credential)[^=&]*=)",
    re.ASCII | re.IGNORECASE,
)
"""A password before the host, or an option such as ``sas_token`` or ``sig``."""
NAME = re.compile(r"[^\x00-\x1f\\/:]{1,200}")
"""What can be a folder's name on every system, and leads nowhere else."""

_users: dict[Path, int] = {}
"""This process's own file among the users of a folder of copies, open until the process ends."""


def is_url(text: str) -> bool:
    """Whether a text names something on an object store.

    >>> is_url("s3://bucket/cache"), is_url("caches/my-cache"), is_url("C:/caches")
    (True, False, False)
    """
    return URL.match(text) is not None


def opened_store(url: str) -> tuple[Any, str]:
    """The file system of a URL, as pyarrow has them, and the path in it, without a slash at its end.

    One with credentials is refused without being shown: URLs stand in messages, in results and in lists of processes.
    """
    from pyarrow import ArrowException  # type: ignore[import-untyped]
    from pyarrow.fs import FileSystem, FSSpecHandler, PyFileSystem  # type: ignore[import-untyped]

    if CREDENTIALS.match(url):
        raise InputError(
            "expected a URL without a password in it or any other credentials, found one with: "
            "give them in the environment"
        )
    try:
        try:
            store, path = FileSystem.from_uri(url)
        except ArrowException as refused:
            # Not one of pyarrow's own: fsspec may know it (pyarrow asks it by itself from version 19 on).
            from fsspec.core import url_to_fs  # type: ignore[import-untyped]

            try:
                files, path = url_to_fs(url)
            except ImportError as error:  # of a store that pyarrow knows, too: its own words say more
                raise ValueError(f"{one_line(refused)}; {one_line(error)}") from error
            store = PyFileSystem(FSSpecHandler(files))
    except (ArrowException, OSError, ValueError, ImportError) as error:
        raise InputError(f"{url}: expected a URL that pyarrow or fsspec can open, found: {one_line(error)}") from error
    return store, path.rstrip("/")


@contextmanager
def store_errors(url: str) -> Iterator[None]:
    """What a store answers with becomes one line."""
    from pyarrow import ArrowException

    try:
        yield
    except FileNotFoundError as error:
        raise InputError(f"{url}: expected a cache, found no {MANIFEST} there, or not all files it lists") from error
    except (OSError, ArrowException) as error:
        raise InputError(f"{url}: cannot be read or written: {one_line(error)}") from error


def fetched_cache(url: str, folder: Path | None = None) -> Path:
    """The local copy of a cache, made unless there is one; its folder has the last name of the URL.

    It stays until this process has ended, whatever others need room for.
    """
    store, path = opened_store(url)
    name = path.rpartition("/")[2]
    if name in (".", "..") or NAME.fullmatch(name) is None:
        raise InputError(f"{url}: expected the URL of a cache, found one without a folder's name at its end")
    with store_errors(url), store.open_input_stream(f"{path}/{MANIFEST}") as stream:
        content = stream.read(LARGEST_MANIFEST + 1)
    try:
        manifest = parse_manifest(content, Path(MANIFEST))
    except InputError as error:
        raise InputError(f"{url}: {error}") from error
    if not manifest.complete:
        raise InputError(f"{url}: expected a complete cache, found an unfinished one")
    copies = folder or copies_folder()
    copy = copies / hashlib.sha256(content).hexdigest()[:40]
    target = copy / name
    make_directory(copies)
    with locked(copies, PATIENCE):
        note_use(copies, copy.name)
    make_directory(copy)
    with locked(copy, PATIENCE):
        if not (target / MANIFEST).is_file():
            with store_errors(url):
                infos = store.get_file_info([f"{path}/{entry.file}" for entry in manifest.files])
            with locked(copies, PATIENCE):
                make_room(copies, sum(info.size or 0 for info in infos) + len(content), copy)
            with (
                whole_folder(target, resumable=True) as partial,
                ProgressBar(f"copying {name}", len(manifest.files)) as bar,
            ):
                for entry in manifest.files:
                    copy_file(store, path, entry, partial, url)
                    bar.advance(note=entry.file)
                write_whole(partial / MANIFEST, [content])
        os.utime(target / MANIFEST)  # the time of its last use
    return target


def copy_file(store: Any, path: str, entry: FileEntry, folder: Path, url: str) -> None:
    """Copy one file that the manifest lists, unless an earlier start has; other bytes than listed are refused."""
    target = folder / entry.file
    if target.is_file() and sha256_of(target) == entry.sha256:
        return
    with store_errors(url), store.open_input_stream(f"{path}/{entry.file}") as stream:
        digest = write_whole(target, iter(lambda: stream.read(BLOCK), b""))
    if digest != entry.sha256:
        target.unlink()
        raise InputError(f"{url}: expected of {entry.file} the bytes that the manifest lists, found others")


def refuse_finished_copy(url: str, *, force: bool) -> None:
    """Raise InputError where a URL holds a finished run, unless that is to be replaced."""
    store, path = opened_store(url)
    try:
        with store_errors(url), store.open_input_stream(f"{path}/{LAST}") as stream:
            record = json.loads(stream.read())
    except InputError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            return
        raise
    except ValueError:
        record = None
    if not force and isinstance(record, dict) and record.get("complete"):
        raise InputError(f"{url} holds a finished run; give another URL with --out, or --force to replace it")


def require_writable(url: str) -> None:
    """Make the folder of a URL; an InputError where the store refuses that, before hours of work are done for it."""
    store, path = opened_store(url)
    with store_errors(url):
        store.create_dir(path, recursive=True)


def upload_folder(folder: Path, url: str) -> None:
    """Copy the files of a folder to a URL, ``run.json`` after all others; hidden ones stay here."""
    store, path = opened_store(url)
    names = [file.relative_to(folder) for file in folder.rglob("*") if file.is_file()]
    shown = [name for name in names if not any(part.startswith(".") for part in name.parts)]
    with store_errors(url), ProgressBar(f"copying to {url}", len(shown)) as bar:
        for name in sorted(shown, key=lambda name: (name.as_posix() == LAST, name)):
            store.create_dir(f"{path}/{name.parent.as_posix()}".removesuffix("/."), recursive=True)
            target = f"{path}/{name.as_posix()}"
            with (folder / name).open("rb") as source, store.open_output_stream(target) as stream:
                shutil.copyfileobj(source, stream, BLOCK)
            sent, kept = (folder / name).stat().st_size, store.get_file_info(target).size
            if kept != sent:  # such as the frames of a transfer that an older store takes for content
                raise InputError(f"{url}: expected {sent} bytes of {name.as_posix()} there, found {kept}")
            bar.advance(note=name.name)


def sha256_of(file: Path) -> str:
    """The sha256 of a file's bytes."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def make_room(copies: Path, size: int, own: Path) -> None:
    """Remove the copies that were used longest ago until ``size`` more bytes fit; InputError where they never do.

    To be called while the folder of copies is locked.
    """
    try:
        most = parse_memory(os.environ.get(VARIABLE, DEFAULT_SIZE))
    except InputError as error:
        raise InputError(f"{VARIABLE}: {error}") from error
    if size > most:
        raise InputError(
            f"expected a cache of at most {most / 1e9:.1f} GB, found {size / 1e9:.1f} GB: set {VARIABLE} for more"
        )
    others = [folder for folder in copies.iterdir() if folder.is_dir() and folder.name != USERS and folder != own]
    sizes = {folder: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file()) for folder in others}
    in_use = used_copies(copies)
    for folder in sorted((folder for folder in others if folder.name not in in_use), key=last_use):
        if sum(sizes.values()) + size <= most:
            break
        shutil.rmtree(folder)
        del sizes[folder]
    if (kept := sum(sizes.values())) + size > most:
        raise InputError(
            f"expected room for {size / 1e9:.2f} GB more of copies, found {kept / 1e9:.2f} of {most / 1e9:.2f} GB in "
            f"use, by this program or another: set {VARIABLE} for more"
        )


def note_use(copies: Path, name: str) -> None:
    """List a copy as in use by this process until it ends; to be called while the folder of copies is locked."""
    if copies not in _users:
        make_directory(copies / USERS)
        used_copies(copies)  # which removes what ended processes have left
        file = copies / USERS / uuid.uuid4().hex
        _users[copies] = os.open(file, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        lock(_users[copies])
    os.write(_users[copies], f"{name}\n".encode())


def used_copies(copies: Path) -> set[str]:
    """The names of the copies that running processes use; what ended ones have left is removed."""
    names: set[str] = set()
    for file in (copies / USERS).glob("*"):
        descriptor = os.open(file, os.O_RDWR)
        try:
            with suppress(OSError):  # where an open file can neither be read nor removed, nothing counts as in use
                if lock(descriptor):
                    file.unlink()
                else:
                    names.update(file.read_text(encoding="utf-8").split())
        finally:
            os.close(descriptor)
    return names


def last_use(folder: Path) -> float:
    """When a copy was used last; one that never became whole counts as oldest."""
    return max((file.stat().st_mtime for file in folder.glob(f"*/{MANIFEST}")), default=0.0)


def copies_folder() -> Path:
    """Where copies lie by default."""
    if named := os.environ.get(FOLDER):
        return Path(named)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "exitbench" / "copies"
