"""What signals have learned, kept in the user's cache folder, so that a second run does not fit again.

An entry is found by content: the sources of the signals, the signal with its parameters, the data it learns from (the
hashes of the cache's manifest, the rows, their labels) and the versions of the libraries. It is a safetensors file
with a checksum (:mod:`exitbench.benchmarks.scoring.fit_entry`); one that is damaged is fitted again. The folder is kept
below :data:`LARGEST`, the entry not used for longest going first. The variable :data:`VARIABLE` names another folder,
or turns the cache off.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import inspect
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.atomic_files import PARTIAL, make_directory, write_whole
from exitbench.benchmarks.scoring.fit_entry import encode_entry, read_entry
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.discovery import PACKAGE

VARIABLE = "EXITBENCH_FIT_CACHE"
OFF = "off"
SUFFIX = ".safetensors"
ENTRY = re.compile(rf"[0-9a-f]{{64}}(\.safetensors|\.json)|\.[0-9a-f]{{64}}\.safetensors{re.escape(PARTIAL)}")
"""The name of an entry: the digest of what it was fitted on; or of what a killed process left of one."""
LARGEST = 10**9
"""The most bytes that the folder holds."""
LIBRARIES = ("exitbench", "torch", "numpy", "scipy", "scikit-learn")


def fit_cache_folder() -> Path | None:
    """Where entries lie, by the platform's convention; ``None`` where the cache is turned off."""
    named = os.environ.get(VARIABLE)
    if named:
        return None if named == OFF else Path(named)
    if base := os.environ.get("XDG_CACHE_HOME"):
        return Path(base) / "exitbench" / "fits"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "exitbench" / "fits"
    if sys.platform == "win32" and (local := os.environ.get("LOCALAPPDATA")):
        return Path(local) / "exitbench" / "Cache" / "fits"
    return Path.home() / ".cache" / "exitbench" / "fits"


def turn_off_fit_cache() -> None:
    """For this process and those it starts."""
    os.environ[VARIABLE] = OFF


def remembered(
    signal: ExitSignal,
    cache: Cache,
    rows: NDArray[np.intp],
    labels: NDArray[np.int64],
    fit: Callable[[], ExitSignal],
) -> ExitSignal:
    """What ``fit`` returns, from the folder where it was fitted before; it is kept there otherwise.

    A folder that cannot be written stops nothing. A class made inside a function is not kept: what it does may
    depend on more than its source.
    """
    folder = fit_cache_folder()
    key = None if folder is None else kept_key(signal, cache, rows, labels)
    if folder is None or key is None:
        return fit()
    path = folder / f"{key}{SUFFIX}"
    stored = stored_fit(path, key, signal)
    if stored is not None:
        return stored
    ready = fit()
    write_entry(path, key, ready.to_json())
    return ready


def kept_key(signal: ExitSignal, cache: Cache, rows: NDArray[np.intp], labels: NDArray[np.int64]) -> str | None:
    """The key of a fit; ``None`` where it cannot be kept."""
    return None if "<locals>" in type(signal).__qualname__ else fit_key(signal, cache, rows, labels)


def fit_key(signal: ExitSignal, cache: Cache, rows: NDArray[np.intp], labels: NDArray[np.int64]) -> str | None:
    """The name of the entry: a digest of everything that the fit depends on; ``None`` where a source is not there."""
    kind = type(signal)
    try:
        sources = source_digest(Path(inspect.getfile(kind)), kind.__qualname__)
    except (OSError, TypeError):  # typed into a session, or gone
        return None
    manifest = cache.manifest
    features = "features" in signal.inputs or ("offset_norm" in signal.inputs and not cache.stores_offset_norms)
    described = {
        "sources": sources,
        "signal": signal.to_json(),
        "inputs": sorted(signal.inputs),
        "heads": manifest.heads.sha256 if manifest.heads is not None else None,
        "shards": [
            [entry.sha256, entry.features.sha256 if features and entry.features is not None else None]
            for entry in manifest.shards
        ],
        "shape": [manifest.model.layers, manifest.model.pooler, list(manifest.task.classes)],
        "rows": digest_of(np.ascontiguousarray(rows, dtype=np.int64)),
        "labels": digest_of(np.ascontiguousarray(labels, dtype=np.int64)),
        "versions": fit_versions(),
    }
    return hashlib.sha256(json.dumps(described, sort_keys=True).encode()).hexdigest()


def digest_of(numbers: NDArray[np.int64]) -> str:
    """The sha256 of an array's bytes."""
    return hashlib.sha256(numbers.tobytes()).hexdigest()


@lru_cache(maxsize=1)
def fit_versions() -> dict[str, str]:
    """The versions of what a fit is computed with."""
    installed = {}
    for name in LIBRARIES:
        try:
            installed[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            installed[name] = ""
    return installed


@lru_cache(maxsize=64)
def source_digest(file: Path, name: str) -> str:
    """A digest of a class's name and of the sources of all signals; for a class from elsewhere, of its folder too."""
    own = file.resolve()
    files = sorted(PACKAGE.rglob("*.py"))
    if PACKAGE.resolve() not in own.parents:
        files += sorted({own, *own.parent.glob("*.py")})
    digest = hashlib.sha256(name.encode())
    for source in files:
        digest.update(source.name.encode() + b"\0" + source.read_bytes())
    return digest.hexdigest()


def stored_fit(path: Path, key: str, signal: ExitSignal) -> ExitSignal | None:
    """The fitted signal of an entry, which counts as used now; ``None`` where there is none that can be believed."""
    try:
        ready = type(signal).from_json(read_entry(path, key, LARGEST))
        if ready.needs_fit:
            return None
        with contextlib.suppress(OSError):  # a folder that may only be read serves all the same
            os.utime(path)
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    return ready


def write_entry(path: Path, key: str, value: Mapping[str, Any]) -> None:
    """Keep a fitted signal, and take away what was not used for longest where the folder grows too large."""
    try:
        content = encode_entry(key, value)
        make_directory(path.parent)
        write_whole(path, [content])
        ROOM.fill(path.parent, LARGEST, len(content))
    except (OSError, InputError):
        return


class Room:
    """How much this process may write into folders before it looks through them again, which takes long.

    Others write there, too: of what a look finds free, each takes one part in :data:`WRITERS`.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[Path, int], int] = {}

    def fill(self, folder: Path, largest: int, written: int) -> None:
        """Note what was written; where it may be too much, keep the folder at most ``largest`` bytes."""
        left = self._left.get((folder, largest), 0) - written
        if left < 0:
            left = (largest - remove_oldest(folder, largest)) // WRITERS
        self._left[folder, largest] = left


WRITERS = 64
"""As many processes may write at once without taking a folder beyond its limit."""
ROOM = Room()


def remove_oldest(folder: Path, largest: int) -> int:
    """Remove entries, the one not used for longest first, until they are at most ``largest`` bytes; how many are left.

    What an earlier version left there, in JSON, is never read again and counts as an entry. Whatever has another name
    is somebody else's: a user may name any folder.
    """
    entries = sorted(_states(sorted(path for path in folder.iterdir() if ENTRY.fullmatch(path.name))))
    total = sum(size for _, size, _ in entries)
    for _, size, path in entries:
        if total <= largest:
            break
        path.unlink(missing_ok=True)
        total -= size
    return total


def _states(paths: Sequence[Path]) -> list[tuple[int, int, Path]]:
    """When each file was last used, its size and its path; a file that another process removed is passed over."""
    states = []
    for path in paths:
        try:
            state = path.stat()
        except OSError:
            continue
        states.append((state.st_mtime_ns, state.st_size, path))
    return states
