"""The card of a cache on the hub: a ``README.md`` with the hub's YAML header, written from the manifest."""

from __future__ import annotations

import re
from typing import Any

from exitbench.printable import printable

SIZES = ((1_000, "n<1K"), (10_000, "1K<n<10K"), (100_000, "10K<n<100K"), (1_000_000, "100K<n<1M"), (10**7, "1M<n<10M"))
"""The hub's words for a number of rows."""

NOT_PLAIN = re.compile(r"[^ !#-\[\]-~]")
"""Whatever stands between quotes of YAML as an escape: all but printable ASCII, quotes and backslashes among it."""
NO_MARKUP = re.compile(r"[^A-Za-z0-9 .,:;=/+()-]")
MOST_CLASSES = 20
"""As many are named; the manifest names them all."""


def dataset_card(card: dict[str, Any], address: str, licence: str | None = None) -> str:
    """The text of the card; ``card`` is what :func:`exitbench.cache.card.cache_card` says of the cache."""
    return f"---\n{card_header(card, licence)}---\n\n{card_body(card, address)}"


def card_header(card: dict[str, Any], licence: str | None) -> str:
    """The YAML header; every text is quoted and escaped, so that no name can end the header."""
    size = next((word for bound, word in SIZES if card["rows"] < bound), "n>10M")
    values: dict[str, str | bool | list[str]] = {
        "pretty_name": f"{card['model']} on {card['task']} ({card['split']}): outputs of every layer",
        "tags": ["exitbench", "early-exit"],
        "size_categories": [size],
        "viewer": False,
        **({} if licence is None else {"license": licence}),
    }
    return "".join(f"{key}: {yaml_value(value)}\n" for key, value in values.items())


def yaml_value(value: str | bool | list[str]) -> str:
    """A value on one line of YAML; half a surrogate pair, which is no character, becomes a question mark."""
    if isinstance(value, list):
        return f"[{', '.join(map(yaml_value, value))}]"
    if isinstance(value, bool):
        return str(value).lower()
    whole = value.encode(errors="replace").decode()
    return '"' + NOT_PLAIN.sub(lambda sign: f"\\U{ord(sign[0]):08x}", whole) + '"'


def card_body(card: dict[str, Any], address: str) -> str:
    """What the cache holds, how its network does layer by layer, how it was made, and how to use it."""
    classes = list(card["classes"])
    named = ", ".join(classes[:MOST_CLASSES]) + (", ..." if len(classes) > MOST_CLASSES else "")
    right = "agrees with the last layer" if card["target"] == "final" else "equals the label"
    facts = {
        "model": card["model"] if card["revision"] is None else f"{card['model']} ({card['revision']})",
        "task": f"{card['task']}, split {card['split']}, scored by {card['metric']}",
        "rows": f"{card['rows']:,}, role {card['role']}",
        "layers with an exit": card["layers"],
        "classes": f"{len(classes)}: {named}",
        "an answer is right when it": right,
        "features": card["features"] or "none",
        "extra outputs": ", ".join(card["outputs"]) or "none",
        "costs": f"given, {card['cost_unit']}" if card["costs"] else "layer over depth",
        "made": f"{card['provenance']['started']}, exitbench {card['provenance']['versions'].get('exitbench', '?')}",
        "note": card["provenance"]["note"] or "none",
    }
    lines = [
        f"# {without_markup(card['name'])}",
        "",
        "The outputs of a multi-exit network at every layer, as an [exitbench](#use) cache: logits, labels and what "
        "else the table names. Early-exit signals are compared on it without running the network again.",
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {without_markup(str(value))} |" for name, value in facts.items()),
        "",
        f"Right answers per layer, in percent: {', '.join(f'{value:g}' for value in card['accuracy_per_layer'])}.",
        "",
        "## Use",
        "",
        "```sh",
        f"exitbench pull {address} my-cache   # checks every hash and number",
        "exitbench run my-cache",
        "```",
        "",
        "The files are JSON and safetensors; nothing in them is executed.",
    ]
    return "\n".join(lines) + "\n"


def without_markup(text: str) -> str:
    """A text that Markdown shows as it is: whatever could be markup becomes its character reference."""
    return NO_MARKUP.sub(lambda sign: f"&#{ord(sign[0])};", printable(text))
