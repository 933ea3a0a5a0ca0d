"""``exitbench inspect``: a cache at a glance."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer


def command(
    cache: Annotated[Path, typer.Argument(help="The cache's directory.", show_default=False)],
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show a cache's card: model, task, rows, accuracy per layer, size and provenance.

    **Example**

    `exitbench inspect fixtures/caches/mpnet-base-sst2-dev`
    """
    from exitbench.cache import Cache, cache_card

    card = cache_card(Cache(cache))
    if as_json:
        typer.echo(json.dumps(card, indent=2, ensure_ascii=False))
    else:
        _show(card)


def _show(card: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    accuracy, provenance = card.pop("accuracy_per_layer"), card.pop("provenance")
    card["bytes"] = f"{card['bytes']:,}"
    card["classes"] = ", ".join(f"{name} ({count})" for name, count in card["classes"].items())
    for key, value in card.items():
        table.add_row(Text(key.replace("_", " ")), Text("-" if value is None else str(value)))
    table.add_row(Text("accuracy"), Text("  ".join(f"{m}: {value:.1f}" for m, value in enumerate(accuracy, 1))))
    for key, value in provenance.items():
        shown = ", ".join(f"{name} {number}" for name, number in value.items()) if isinstance(value, dict) else value
        table.add_row(Text(key), Text("-" if shown in (None, "") else str(shown)))
    Console().print(table)
