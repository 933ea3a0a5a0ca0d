"""Whether two processes have the same exitbench: a digest of all files of the package that results depend on."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import exitbench

LEFT_OUT = {"__pycache__", "speed"}
"""Folders of no consequence: compiled modules, and benchmarks of the program, which are not installed."""
KINDS = (".py", ".j2", ".js", ".css")
ROOMS = ("benchmarks", "reports", "signals")


@cache
def package_digest() -> str:
    """A digest of the package's modules and page templates, as they were when this process was first asked."""
    digest = hashlib.sha256()
    for name, file in sorted(_sources()):
        digest.update(f"{name}\0".encode())
        digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()[:20]


def _sources() -> Iterator[tuple[str, Path]]:
    package = Path(exitbench.__file__).parent
    yield from _below(package, package)
    # Without symbolic links the rooms lie beside the package: see exitbench/__init__.py.
    for room in ROOMS:
        if not (package / room).is_dir():
            yield from _below(package.parent / room, package.parent)


def _below(folder: Path, root: Path) -> Iterator[tuple[str, Path]]:
    for parent, folders, files in os.walk(folder, followlinks=True):
        folders[:] = [name for name in folders if name not in LEFT_OUT]
        for name in files:
            if name.endswith(KINDS):
                file = Path(parent, name)
                yield file.relative_to(root).as_posix(), file
