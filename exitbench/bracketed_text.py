"""A signal's text split outside its brackets: ``of=cap[alpha=1,center=true],method=platt`` has two parts."""

from __future__ import annotations

from itertools import accumulate


def split_outside(text: str, separator: str) -> list[str]:
    """The parts of ``text`` between separators that no bracket encloses; the whole text where there is no separator.

    >>> split_outside("of=cap[alpha=1,center=true],method=platt", ",")
    ['of=cap[alpha=1,center=true]', 'method=platt']
    """
    parts, depth, start = [], 0, 0
    for position, sign in enumerate(text):
        depth += (sign == "[") - (sign == "]")
        if sign == separator and depth == 0:
            parts.append(text[start:position])
            start = position + 1
    return [*parts, text[start:]]


def is_balanced(text: str) -> bool:
    """Whether every bracket of ``text`` is closed, and none before it is opened.

    >>> is_balanced("cap[alpha=1]"), is_balanced("cap]["), is_balanced("cap[[")
    (True, False, False)
    """
    depth = 0
    for sign in text:
        depth += (sign == "[") - (sign == "]")
        if depth < 0:
            return False
    return depth == 0


def depth_of(text: str) -> int:
    """How many brackets of ``text`` are open at once at most.

    >>> depth_of("calibrated[of=cap[alpha=1],method=platt]")
    2
    """
    return max(accumulate((sign == "[") - (sign == "]") for sign in text), default=0)
