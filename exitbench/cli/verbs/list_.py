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
    from exitbench.cli.signals_option import load
    from exitbench.signals.registry.catalogue import describe

    return describe(load(directories))


def _caches() -> list[dict[str, Any]]:
    from exitbench.cache.format.manifest import read_manifest
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
    from exitbench.benchmarks.suites.suite_file import known_suites, load_suite

    rows = []
    for name, path in known_suites().items():
        suite = load_suite(path)
        rows.append(
            {
                "name": name,
                "caches": f"{len(suite.caches)} ({len(suite.missing_caches())} missing)",
                "signals": len(suite.signals),
                "protocols": list(suite.questions.protocols),
                "resamples": suite.questions.resamples,
                "description": suite.description,
            }
        )
    return rows


COLUMNS = {
    "signals": ("key", "title", "direction", "inputs", "parameters", "thresholds", "reference"),
    "caches": ("name", "model", "task", "split", "rows", "layers", "classes", "features", "complete"),
    "suites": ("name", "caches", "signals", "protocols", "resamples", "description"),
}


def _show(name: str, rows: list[dict[str, Any]]) -> None:
    """One line each, in columns that no terminal width cuts."""
    if not rows:
        typer.echo(f"{name}: none\n")
        return
    table = [list(COLUMNS[name])] + [[_cell(row[column]) for column in COLUMNS[name]] for row in rows]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    typer.secho(f"{name}:", bold=True)
    for line in table:
        typer.echo("  " + "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())
    typer.echo()


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return str(value.get("text") or f"{value['year']} {value['link']}")
    return "-" if value is None else " ".join(str(value).split())
