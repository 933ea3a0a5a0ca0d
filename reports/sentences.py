"""Parts of sentences that several views share: lists of names, and names with marks."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

LONGEST = 60
"""Longer names are cut in sentences; tables show them whole."""
NAMED = 4
"""As many names as a sentence lists before it only counts."""


def listed(names: Sequence[str]) -> str:
    """Names in a sentence; beyond a few they are counted.

    >>> listed(["a"]), listed(["a", "b", "c"]), listed(["a", "b", "c", "d", "e", "f"])
    ('a', 'a, b and c', 'a, b, c and 3 more')
    """
    names = list(names)
    if len(names) > NAMED + 1:
        names = [*names[: NAMED - 1], f"{len(names) - NAMED + 1} more"]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}" if names else "none"


def short_name(name: str) -> str:
    """A name inside a sentence: not too long, and set apart where it runs from right to left.

    >>> short_name("CAP"), len(short_name("x" * 300))
    ('CAP', 60)
    """
    short = name if len(name) <= LONGEST else f"{name[: LONGEST - 1]}…"
    turns = any(unicodedata.bidirectional(sign) in ("R", "AL") for sign in short)
    return f"\u2068{short}\u2069" if turns else short
