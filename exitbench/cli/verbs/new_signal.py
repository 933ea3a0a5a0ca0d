"""``exitbench new-signal``: a starting file for a signal of one's own, with its test."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


class SignalKind(StrEnum):
    """The kinds of signals that there is a starting file for."""

    PLAIN = "plain"
    PATIENCE = "patience"
    LEARNED = "learned"


def command(
    name: Annotated[str, typer.Argument(help="Its key: lower-case words joined by hyphens.", show_default=False)],
    kind: Annotated[
        SignalKind,
        typer.Option("--kind", help="plain: one layer at a time; patience: several in a row; learned: from samples."),
    ] = SignalKind.PLAIN,
    folder: Annotated[Path, typer.Option("--dir", help="Where the two files go; made if missing.")] = Path(),
) -> None:
    """Write a signal that works, and its test, to start from.

    The file is documented line by line and passes `exitbench test-signal` as it is. Nothing is overwritten.

    **Examples**

    `exitbench new-signal my-margin`

    `exitbench new-signal steady-margin --kind patience --dir my-signals`
    """
    from datetime import UTC, datetime

    from exitbench.atomic_files import make_directory, write_text
    from exitbench.errors import InputError
    from exitbench.signals.contract.parameters import NAME
    from exitbench.signals.registry.discovery import load_registry
    from exitbench.signals.registry.template import Kind, file_stem, sources

    if not NAME.fullmatch(name):
        raise InputError(f"a signal's name is lower-case words joined by hyphens, such as my-margin; found {name!r}")
    registry = load_registry()
    if name in registry.signals:
        raise InputError(f"there is a signal {name!r} already, in {registry.origin(name)}; choose another name")
    if folder.exists() and not folder.is_dir():
        raise InputError(f"expected a folder, found a file at {folder}")
    stem = file_stem(name)
    targets = (folder / f"{stem}.py", folder / f"test_{stem}.py")
    texts = tuple(sources(name, year=datetime.now(UTC).year, kind=Kind(kind)))
    there = [target for target in targets if target.exists()]
    # One of the two, untouched, is what a kill between them leaves.
    unfinished = there == [targets[0]] and targets[0].is_file() and targets[0].read_bytes() == texts[0].encode()
    if there and not unfinished:
        raise InputError(f"{there[0]} exists already and is not overwritten")
    if importable(stem):
        raise InputError(f"a file {stem}.py would hide the Python module {stem!r}; choose a name such as my-{name}")
    make_directory(folder)
    for target, source in zip(targets, texts, strict=True):
        write_text(target, source)
        echo(f"wrote {target}")
    echo(f"next: exitbench test-signal {targets[0]}")


def importable(module: str) -> bool:
    """Whether Python finds a module of this name, which a file of that name would stand in the way of."""
    import sys
    from importlib.util import find_spec

    if module in sys.modules:
        return True
    spec = find_spec(module)
    return spec is not None and spec.origin is not None  # a folder without modules has no origin
