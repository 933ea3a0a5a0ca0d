"""A run whose ``--out`` is a URL: made in a folder here, then copied, and copied again where that failed."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.benchmarks.suites.suite import Suite

MARK = ".to-copy.json"
"""In the folder of a run until it is copied: what it was made of, and where to."""


def what_is_asked(suite: Suite, url: str, signals_dirs: Sequence[Path]) -> dict[str, Any]:
    """Everything that two runs must share for one to be the other: the command, the caches, the code."""
    from exitbench.benchmarks.run.units import code_digest

    return {
        "url": url,
        "arguments": sys.argv[1:],
        "suite": repr(suite),
        "caches": [hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest() for path in suite.caches],
        "code": code_digest([str(folder.resolve()) for folder in signals_dirs]),
    }


def only_copied(suite: Suite, url: str, signals_dirs: Sequence[Path], *, in_parts: bool, force: bool) -> bool:
    """Copy this very run if an earlier start has finished it and not copied it; whether that was so.

    Raises InputError, before anything is computed, where the URL cannot be written or holds a finished run already, or
    the folder here holds another one; the latter two unless ``force`` replaces them.
    """
    from exitbench.benchmarks.results.files import RunFiles
    from exitbench.cache.object_store import refuse_finished_copy, require_writable
    from exitbench.errors import InputError
    from exitbench.output_folder import RUN_RECORD

    if in_parts:
        raise InputError("--part needs a folder that all parts see: expected no URL as --out beside it")
    refuse_finished_copy(url, force=force)
    require_writable(url)
    folder = Path("out") / suite.name
    if force or not (folder / RUN_RECORD).exists() or not RunFiles(folder).record.get("complete"):
        return False
    try:
        marked = json.loads((folder / MARK).read_bytes())
    except (OSError, ValueError):
        marked = None
    if marked != what_is_asked(suite, url, signals_dirs):
        raise InputError(
            f"{folder} holds another finished run, and a run for a URL is made there first: "
            "remove that folder, or --force to replace it"
        )
    copy_run(suite, folder, url, signals_dirs)
    return True


def copy_run(suite: Suite, folder: Path, url: str, signals_dirs: Sequence[Path]) -> None:
    """Copy a run to its URL, and say so; an InputError says how to go on."""
    from exitbench.atomic_files import write_text
    from exitbench.cache.object_store import upload_folder
    from exitbench.errors import InputError

    write_text(folder / MARK, json.dumps(what_is_asked(suite, url, signals_dirs)) + "\n")
    try:
        upload_folder(folder, url)
    except InputError as error:
        raise InputError(f"{error}; the run is in {folder}, and the same command copies it again") from error
    (folder / MARK).unlink()
    echo(f"copied to {url}")
