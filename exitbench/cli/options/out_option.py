"""``--out FILE`` and ``--force`` of every verb that writes one file: nothing is replaced unasked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

ForceOption = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]


def refuse_out(out: Path, *, force: bool) -> None:
    """An InputError where ``out`` is no name of a new file; with ``force`` it may be that of a file, which is replaced.

    A folder, a device or a pipe is never replaced: the new file takes the name, and would not go through it.
    """
    from exitbench.atomic_files import refuse_url
    from exitbench.errors import InputError

    if not out.parent.is_dir():
        refuse_url(out)
        raise InputError(f"{out}: the folder {out.parent} does not exist")
    if out.exists() and not out.is_file():
        raise InputError(f"{out}: expected the name of a file, found {'a folder' if out.is_dir() else 'a device'}")
    if os.path.lexists(out) and not force:
        raise InputError(f"{out} exists already; --force overwrites it")
