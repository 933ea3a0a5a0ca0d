"""``exitbench inspect``: a cache at a glance."""

from pathlib import Path
from typing import Annotated, Any

import typer

from exitbench.cli.terminal import cell_text, echo_json, terminal_console


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
        echo_json(card)
    else:
        _print_card(card)


def _print_card(card: dict[str, Any]) -> None:
    from rich.table import Table

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    accuracy, provenance = card.pop("accuracy_per_layer"), card.pop("provenance")
    card["bytes"] = f"{card['bytes']:,}"
    card["classes"] = ", ".join(f"{name} ({count})" for name, count in card["classes"].items())
    for key, value in card.items():
        table.add_row(cell_text(key.replace("_", " ")), cell_text("-" if value is None else value))
    layers = "  ".join(f"{layer}: {value:.1f}" for layer, value in enumerate(accuracy, 1))
    table.add_row(cell_text("accuracy"), cell_text(layers))
    for key, value in provenance.items():
        text = ", ".join(f"{name} {version}" for name, version in value.items()) if isinstance(value, dict) else value
        table.add_row(cell_text(key), cell_text("-" if text in (None, "") else text))
    terminal_console().print(table)
