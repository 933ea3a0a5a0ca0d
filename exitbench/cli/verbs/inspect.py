"""``exitbench inspect``: a cache at a glance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import cell_text, echo_json, terminal_console

if TYPE_CHECKING:
    from exitbench.cache import Cache, Target

PAIR = ("deebert", "e-lang")
"""Entropy and energy, which every cache with logits has."""
MANY_ROWS = 20_000
"""Beyond this many rows, measuring even two signals takes longer than a glance."""


def command(
    cache: Annotated[str, typer.Argument(help="A cache, by name or path.", show_default=False)],
    target: TargetOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="For programs.")] = False,
) -> None:
    """Show a cache's card: model, task, rows, accuracy per layer, what it can show, size and provenance.

    Labels and logits are compared with their hashes first; `exitbench verify` looks at everything. The smallest
    difference is that of entropy and energy, in points; `exitbench power` has all pairs, and what it takes for less.

    **Example**

    `exitbench inspect fixtures/caches/mpnet-base-sst2-dev`
    """
    from exitbench.cache import cache_card
    from exitbench.cli.cache_argument import named_cache
    from exitbench.cli.unchanged_cache import unchanged_cache

    opened = unchanged_cache(named_cache(cache))
    card = cache_card(opened, target_name(target))
    card["smallest_difference"] = smallest_difference(opened, target_name(target))
    if as_json:
        echo_json(card)
    else:
        _print_card(card)


def smallest_difference(cache: Cache, target: Target | None) -> str:
    """What the cache can show of the difference between two signals, in words; or why that is not known."""
    from exitbench.cli.verbs.power import at, measured
    from exitbench.errors import InputError

    if cache.rows > MANY_ROWS:
        return "see exitbench power (many rows take a while)"
    try:
        columns = measured([str(cache.path.resolve())], PAIR, [], None, {"resamples": 100, "target": target})
    except InputError as error:
        return f"not known: {error}"
    texts = [
        f"DIS, layer {column.layer}: {column.one_pair:.2f}"
        if column.measure == "dis"
        else f"score at {at(column.operating_point)}: {column.one_pair:.2f}"
        for column in columns
    ]
    return ", ".join(texts) or "not known: the two signals are one ranking here"


def derivation_text(derived: Mapping[str, Any] | None) -> str | None:
    """How a derived cache was made, in a line: its method, and every source by role and name."""
    if derived is None:
        return None
    sources = derived.get("sources")
    named = sources.items() if isinstance(sources, dict) else ()
    texts = [f"{role} {source.get('cache')}" for role, source in named if isinstance(source, dict)]
    return f"{derived['method']} ({', '.join(texts)})" if texts else str(derived["method"])


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
    card["derived"] = derivation_text(card["derived"])
    reason = card.pop("no_heads")
    card["heads"] = "yes" if card["heads"] else f"none: {reason}" if reason else "none"
    for key, value in card.items():
        table.add_row(cell_text(key.replace("_", " ")), cell_text("-" if value is None else value))
    layers = "  ".join(f"{layer}: {value:.1f}" for layer, value in enumerate(accuracy, 1))
    heading = "accuracy" if card["target"] == "labels" else "agrees with the last layer"
    table.add_row(cell_text(heading), cell_text(layers))
    for key, value in provenance.items():
        text = ", ".join(f"{name} {version}" for name, version in value.items()) if isinstance(value, dict) else value
        table.add_row(cell_text(key), cell_text("-" if text in (None, "") else text))
    terminal_console().print(table)
