"""How figures look: one colour and one marker per signal wherever it appears, safe for colour-blind readers.

The nine signals of the suite have fixed assignments (Tol's muted palette); any other signal gets its own from its
name, so that it, too, looks the same in every figure of every run.
"""

from __future__ import annotations

import hashlib
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_hex, to_rgb

mpl.use("agg")

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

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a place that is given need not be computed from all ticks; none of them stand on top
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "figure.dpi": 100,
    "savefig.dpi": 150,
    "svg.fonttype": "none",  # text stays text: readable by screen readers, and signs DejaVu lacks still show
    "text.parse_math": False,  # a dollar in a name is a dollar
    "figure.constrained_layout.use": True,
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}
"""Settings over seaborn's ticks theme."""


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
    base = np.array(to_rgb(colour(signal)))
    dark, light = 0.45 * base, base + 0.6 * (1 - base)
    return [to_hex(dark + (light - dark) * position) for position in np.linspace(0, 1, count)]


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
