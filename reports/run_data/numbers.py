"""A number as text: as many digits as its interval allows, and the row it came from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

Source = Literal["results", "pairs", "across", "published", "cost", "answers"]


@dataclass(frozen=True, slots=True)
class Number:
    """One number as it is shown.

    ``text`` is the value with as many digits as its interval supports, ``interval`` is ``[70.1, 74.4]`` or
    empty. ``key`` is the key of its row in the file ``source``: in the order of ``results.schema.KEY`` for
    ``results``, of :data:`PAIR_KEY` for ``pairs`` (where the value's sign is turned when the table's row is the
    second signal), of :data:`ACROSS_KEY` for ``across``, (file, line) for ``published``. ``column`` names the column
    of that row that is shown. What several runs have together is computed from their stored ``answers`` and has no row.
    ``run`` is the number of the run on a page where several stand in one table.
    """

    value: float
    text: str
    low: float | None = None
    high: float | None = None
    interval: str = ""
    source: Source = "results"
    key: tuple[Any, ...] = ()
    column: str = "value"
    run: str = ""


def decimals(low: float | None, high: float | None, default: int = 1, most: int = 2) -> int:
    """How many decimals an interval supports: its half-width keeps one or two significant digits.

    >>> decimals(70.1, 74.4), decimals(92.05, 92.21), decimals(40.0, 80.0), decimals(None, None)
    (1, 2, 0, 1)
    """
    if low is None or high is None or not (math.isfinite(low) and math.isfinite(high)):
        return default
    half = (high - low) / 2
    if half <= 0:
        return default
    if half >= 10:
        return 0
    return 1 if half >= 0.1 else most


def number(
    value: float,
    low: float | None = None,
    high: float | None = None,
    *,
    source: Source = "results",
    key: tuple[Any, ...] = (),
    column: str = "value",
    digits: int | None = None,
) -> Number:
    """A number with its text; ``digits`` overrules what the interval would allow, for ratios and p-values.

    >>> number(72.345, 70.12, 74.4).text, number(72.345, 70.12, 74.4).interval
    ('72.3', '[70.1, 74.4]')
    """
    low = None if low is None or math.isnan(low) else low
    high = None if high is None or math.isnan(high) else high
    places = decimals(low, high) if digits is None else digits
    interval = "" if low is None or high is None else f"[{fixed(low, places)}, {fixed(high, places)}]"
    return Number(value, fixed(value, places), low, high, interval, source, key, column)


def fixed(value: float, places: int) -> str:
    """A number with fixed decimals and no negative zero.

    >>> fixed(-0.04, 1), fixed(2.0, 2), fixed(float("inf"), 1), fixed(float("nan"), 1)
    ('0.0', '2.00', '∞', '–')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "−∞"
    text = f"{value:.{places}f}"
    return text[1:] if text.startswith("-") and not text.strip("-0.") else text


def p_text(value: float) -> str:
    """A p-value as it is printed in a table.

    >>> p_text(0.0004), p_text(0.0312), p_text(1.0)
    ('<0.001', '0.031', '1.000')
    """
    if math.isnan(value):
        return "–"
    return "<0.001" if value < 0.001 else f"{value:.3f}"
