"""A unit of work: plain values go out, files come back, one failure stops nothing else.

A unit is a frozen dataclass of paths, texts and numbers; what it makes it leaves in its own folder, so that a finished
unit need not be done again. A folder counts as finished once ``done.json`` is there, which is written last. Nothing
here knows what the work is, or who does it.

The files in a unit's folder are scratch: written plainly and without fsync, since the caller removes them at the
end, and what a killed process has written is not lost. A crash of the machine can lose it, so ``done.json`` has a
checksum of every file, and a unit of an earlier start is compared with them before it is taken for finished.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from exitbench.errors import InputError, one_line
from exitbench.executors.set_aside import OWN_PROCESS

DONE = "done.json"
BLOCK = 2**20


class Unit(Protocol):
    """A piece of work: picklable, with a folder of its own and a label people can read."""

    @property
    def folder(self) -> Path: ...
    @property
    def label(self) -> str: ...

    def work(self) -> None:
        """Do it, leaving all results in :attr:`folder`."""


@dataclass(frozen=True)
class Failure:
    """A unit that did not finish, and why, in one line."""

    label: str
    reason: str


def is_done(unit: Unit) -> bool:
    """Whether a unit's folder holds its finished work."""
    return (unit.folder / DONE).is_file()


def is_whole(unit: Unit) -> bool:
    """Whether a unit is done and its files are what they were when it was."""
    try:
        record = json.loads((unit.folder / DONE).read_bytes())
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and record.get("files") == checksums(unit.folder)


def checksums(folder: Path) -> dict[str, int]:
    """CRC-32 of every file in a unit's folder, by name."""
    sums = {}
    for file in sorted(folder.iterdir()):
        if file.name != DONE and file.is_file():
            sums[file.name] = 0
            with file.open("rb", buffering=0) as stream:
                while block := stream.read(BLOCK):
                    sums[file.name] = zlib.crc32(block, sums[file.name])
    return sums


def perform(unit: Unit) -> Failure | None:
    """Do one unit unless it is done already; an exception becomes a :class:`Failure`."""
    if is_done(unit):
        return None
    try:
        unit.folder.mkdir(parents=True, exist_ok=True)
        work_and_sign(unit)
    except Exception as error:  # whatever a plug-in raises must not stop the other units
        return failure_of(unit, error)
    return None


def work_and_sign(unit: Unit) -> None:
    """Do the work of a unit in its folder, which is there, and sign it with ``done.json``."""
    unit.work()
    OWN_PROCESS.set_aside()
    record = {"label": unit.label, "files": checksums(unit.folder)}
    (unit.folder / DONE).write_text(json.dumps(record) + "\n", encoding="utf-8")


def failure_of(unit: Unit, error: BaseException) -> Failure:
    """What a unit's exception is reported as."""
    if isinstance(error, InputError):
        return Failure(unit.label, str(error))
    return Failure(unit.label, f"{type(error).__name__}: {one_line(error)}")


def digest(values: Mapping[str, Any]) -> str:
    """A short name for a unit's folder: the same inputs, the same name."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:20]
