"""``exitbench inspect``: a cache at a glance."""

from pathlib import Path
from typing import Annotated, Any

import typer

from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import cell_text, echo_json, terminal_console


def command(
    cache: Annotated[Path, typer.Argument(help="The cache's directory.", show_default=False)],
    target: TargetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show a cache's card: model, task, rows, accuracy per layer, size and provenance.

    Labels and logits are compared with their hashes first; `exitbench verify` looks at everything.

    **Example**

    `exitbench inspect fixtures/caches/mpnet-base-sst2-dev`
    """
    from exitbench.cache import cache_card
    from exitbench.cli.unchanged_cache import unchanged_cache

    card = cache_card(unchanged_cache(cache), target_name(target))
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
    card["classes"] = ", ".join(
        name if count is None else f"{name} ({count})" for name, count in card["classes"].items()
    )
    card["outputs"] = ", ".join(f"{name}: {text}" if text else name for name, text in card["outputs"].items()) or None
    card["costs"] = "layer over depth" if card["costs"] is None else ", ".join(f"{cost:g}" for cost in card["costs"])
    for key, value in card.items():
        table.add_row(cell_text(key.replace("_", " ")), cell_text("-" if value is None else value))
    layers = "  ".join(f"{layer}: {value:.1f}" for layer, value in enumerate(accuracy, 1))
    heading = "accuracy" if card["target"] == "labels" else "agrees with the last layer"
    table.add_row(cell_text(heading), cell_text(layers))
    for key, value in provenance.items():
        text = ", ".join(f"{name} {version}" for name, version in value.items()) if isinstance(value, dict) else value
        table.add_row(cell_text(key), cell_text("-" if text in (None, "") else text))
    terminal_console().print(table)
