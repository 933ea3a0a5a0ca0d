"""``exitbench list``: what there is, one line each."""

from collections.abc import Callable
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from exitbench.cli.terminal import cell_text, column_lines, echo, echo_json, terminal_console
from exitbench.errors import InputError, MissingExtraError

Declared = TypeVar("Declared")


class What(StrEnum):
    """The kinds of things there are."""

    signals = "signals"
    caches = "caches"
    suites = "suites"
    methods = "methods"
    recipes = "recipes"


def command(
    what: Annotated[What | None, typer.Argument(help="Only these; all when left out.")] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    methods_dir: Annotated[
        list[Path] | None, typer.Option("--methods-dir", help="A folder with more methods.", show_default=False)
    ] = None,
    recipes_dir: Annotated[
        list[Path] | None, typer.Option("--recipes-dir", help="A folder with more recipes.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """List signals, caches that come with the clone, suites, methods of `derive` and recipes of `train`.

    **Examples**

    `exitbench list` · `exitbench list signals --json` · `exitbench list signals --signals-dir my-signals`
    """
    readers: dict[What, Callable[[], list[dict[str, Any]]]] = {
        What.signals: lambda: _signals(signals_dir or []),
        What.caches: _caches,
        What.suites: _suites,
        What.methods: lambda: _methods(methods_dir or []),
        What.recipes: lambda: _recipes(recipes_dir or []),
    }
    rows_of = {kind.value: readers[kind]() for kind in (What if what is None else [what])}
    if as_json:
        echo_json(rows_of if what is None else rows_of[what.value])
        return
    for kind, rows in rows_of.items():
        _print_rows(kind, rows)


def _signals(directories: list[Path]) -> list[dict[str, Any]]:
    from exitbench.cli.loading.torch_later import NeedsTorch, standing_in, without_torch

    def described() -> list[dict[str, Any]]:
        from exitbench.cli.signals_option import load
        from exitbench.signals.registry.catalogue import catalogue_of
        from exitbench.signals.registry.discovery import load_registry

        if standing_in() and load_registry(directories).broken:
            raise NeedsTorch  # what is wrong with a file, it says itself
        return catalogue_of(load(directories))

    return without_torch(described)


def _caches() -> list[dict[str, Any]]:
    from exitbench.cache.format.manifest_file import read_manifest
    from exitbench.places import cache_directories

    rows = []
    for path in cache_directories():
        try:
            manifest = read_manifest(path)
        except InputError as error:
            echo(f"warning: {error}", err=True)
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


def _in_files(load: Callable[[list[Path]], Declared], directories: list[Path]) -> Declared:
    """What is found in files; a file of the user's that does not load without torch is asked again with it."""
    from exitbench.cli.loading.torch_later import NeedsTorch, standing_in

    try:
        return load(directories)
    except InputError:
        if standing_in():
            raise NeedsTorch from None  # what is wrong with a file, it says itself
        raise


def _methods(directories: list[Path]) -> list[dict[str, Any]]:
    from exitbench.cli.loading.torch_later import without_torch

    def described() -> list[dict[str, Any]]:
        from exitbench.derive.registry import load_methods

        methods = _in_files(load_methods, directories)
        return [{**row, "needs": sorted(methods.classes[row["key"]].needs)} for row in methods.described()]

    return without_torch(described)


def _recipes(directories: list[Path]) -> list[dict[str, Any]]:
    from exitbench.cli.loading.torch_later import without_torch

    def described() -> list[dict[str, Any]]:
        from exitbench.models.training.recipe_registry import load_recipes

        recipes = _in_files(load_recipes, directories)
        return [
            {**row, "exits": recipes.classes[row["key"]].exit_rule, "published": recipes.classes[row["key"]].published}
            for row in recipes.described()
        ]

    try:
        return without_torch(described)
    except MissingExtraError as error:
        echo(f"warning: recipes: {error}", err=True)
        return []


COLUMNS = {
    "signals": ("key", "title", "direction", "inputs", "parameters", "thresholds", "reference"),
    "caches": ("name", "model", "task", "split", "rows", "layers", "classes", "features", "complete"),
    "suites": ("name", "caches", "signals", "protocols", "resamples", "description"),
    "methods": ("key", "title", "needs", "parameters", "reference"),
    "recipes": ("key", "title", "exits", "parameters", "published", "reference"),
}


def _print_rows(kind: str, rows: list[dict[str, Any]]) -> None:
    """One line each, in columns that no terminal width cuts."""
    if not rows:
        echo(f"{kind}: none", "")
        return
    columns = COLUMNS[kind]
    terminal_console().print(cell_text(f"{kind}:", style="bold"))
    lines = column_lines(columns, ([_cell(row[column]) for column in columns] for row in rows))
    echo(*(f"  {line}" for line in lines), "")


def _cell(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(_cell(item) for item in value)
    if isinstance(value, dict):
        return str(value.get("text") or f"{value['year']} {value['link']}")
    return "-" if value is None else " ".join(str(value).split())
