"""How figures look: one colour and one marker per signal wherever it appears, safe for colour-blind readers.

The nine signals of the suite have fixed assignments (Tol's muted palette); any other signal gets its own from its
name, so that it, too, looks the same in every figure of every run.
"""

from __future__ import annotations

import hashlib

KNOWN = {
    "deebert": ("#332288", "o"),
    "right-tool": ("#5ab4e5", "s"),
    "pabee": ("#117733", "^"),
    "f-pabee": ("#999933", "v"),
    "pcee": ("#44aa99", "D"),
    "e-lang": ("#dd8452", "P"),
    "nsp": ("#aa4499", "X"),
    "cap": ("#882255", "*"),
    "random": ("#777777", "."),
    "fixed": ("#999999", "x"),
}
OTHERS = ("#cc6677", "#0077bb", "#b8860b", "#005f5f", "#ee3377", "#5f4690", "#6b8e23", "#a0522d", "#1d6996", "#bb5566")
MARKERS = ("h", "p", "d", "<", ">", "8", "H")
LINES = ("-", "--", "-.", ":")
BOUNDS = {"oracle": "#222222", "final": "#222222", "fixed": "#999999", "random": "#777777"}


def number_of(signal: str, salt: str) -> int:
    """A number that depends on the name alone."""
    return int.from_bytes(hashlib.sha256(f"{salt}:{signal}".encode()).digest()[:4], "big")


def colour(signal: str) -> str:
    """The colour of a signal, ``#rrggbb``.

    >>> colour("cap"), colour("mine") == colour("mine")
    ('#882255', True)
    """
    return KNOWN[signal][0] if signal in KNOWN else OTHERS[number_of(signal, "colour") % len(OTHERS)]


def shades(signal: str, count: int) -> list[str]:
    """``count`` shades of a signal's colour, dark to light, for several entries of it; the colour itself for one.

    >>> shades("cap", 1), len(set(shades("cap", 60)))
    (['#882255'], 60)
    """
    if count == 1:
        return [colour(signal)]
    base = [int(colour(signal)[start : start + 2], 16) / 255 for start in (1, 3, 5)]
    tints = []
    for number in range(count):
        position = number / (count - 1)
        ends = ((0.45 * channel, channel + 0.6 * (1 - channel)) for channel in base)
        channels = (round(255 * (dark + (light - dark) * position)) for dark, light in ends)
        tints.append("#" + "".join(f"{channel:02x}" for channel in channels))
    return tints


def marker(signal: str) -> str:
    """The marker of a signal, as matplotlib names it."""
    return KNOWN[signal][1] if signal in KNOWN else MARKERS[number_of(signal, "marker") % len(MARKERS)]


def line_style(repeat: int) -> str:
    """The line of the n-th entry (from 0) of one signal, which share their colour."""
    return LINES[repeat % len(LINES)]


def shortened(text: str, length: int = 28) -> str:
    """A name that fits into a legend; the full one stands in the tables. Never begins with an underscore, which
    matplotlib would take for "leave me out".

    >>> shortened("x" * 40, 10), shortened("_a")
    ('xxxxxxxxx…', ' _a')
    """
    flat = " ".join(text.split())
    flat = flat if len(flat) <= length else flat[: length - 1] + "…"
    return " " + flat if flat.startswith("_") else flat
