"""``exitbench list``: what there is, one line each."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from exitbench.errors import InputError


class What(StrEnum):
    """The three things there are."""

    signals = "signals"
    caches = "caches"
    suites = "suites"


def command(
    what: Annotated[What | None, typer.Argument(help="Only these; all three when left out.")] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List the signals, the caches that come with the clone, and the suites.

    **Examples**

    `exitbench list` · `exitbench list signals --json` · `exitbench list signals --signals-dir my-signals`
    """
    wanted = list(What) if what is None else [what]
    found = {item.value: _rows(item, signals_dir or []) for item in wanted}
    if as_json:
        typer.echo(json.dumps(found if what is None else found[what.value], indent=2, ensure_ascii=False))
        return
    for name, rows in found.items():
        _show(name, rows)


def _rows(what: What, directories: list[Path]) -> list[dict[str, Any]]:
    if what is What.signals:
        return _signals(directories)
    return _caches() if what is What.caches else _suites()


def _signals(directories: list[Path]) -> list[dict[str, Any]]:
    from signals.catalogue import describe
    from signals.registry import load_registry

    registry = load_registry(directories)
    for path, error in registry.broken:
        typer.echo(f"warning: {path}: {error}", err=True)
    return describe(registry)


def _caches() -> list[dict[str, Any]]:
    from exitbench.cache.manifest import read_manifest
    from exitbench.places import cache_directories

    rows = []
    for path in cache_directories():
        try:
            manifest = read_manifest(path)
        except InputError as error:
            typer.echo(f"warning: {error}", err=True)
            continue
        rows.append(
            {
                "name": path.name,
                "model": manifest.model.name,
                "task": manifest.task.name,
                "split": manifest.split,
                "rows": manifest.rows,
                "layers": manifest.model.layers,
                "classes": len(manifest.task.classes),
                "features": manifest.feature_dtype,
                "complete": manifest.complete,
            }
        )
    return rows


def _suites() -> list[dict[str, Any]]:
    from benchmarks.suite import describe_suites

    return describe_suites()


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console()
    if not rows:
        console.print(f"{name}: none")
        return
    columns = list(rows[0])
    table = Table(title=name, title_justify="left", box=None, header_style="bold", pad_edge=False)
    for column in columns:
        table.add_column(column)
    for row in rows:
        table.add_row(*(Text(_cell(row[column])) for column in columns))
    console.print(table)


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return _cell(value.get("text", list(value.values())))
    return "-" if value is None else str(value)
