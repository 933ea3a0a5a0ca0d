"""An operating point as results name it: a speed-up, a largest loss, a promised harm, a threshold, the last layer.

The column ``operating_point`` of the result files holds its text; everything else works with the value.
"""

from __future__ import annotations

import functools
from typing import Literal, NamedTuple

Kind = Literal["", "speed_up", "loss", "harm", "tau", "final"]


class OperatingPoint(NamedTuple):
    """What is asked for: ``value`` is a speed-up, points of task score, or a threshold (also the word ``median``).

    >>> OperatingPoint("speed_up", 4.0).text, OperatingPoint("tau", 0.3).text, NOWHERE.text, FINAL.text
    ('speed_up=4', 'tau=0.3', '', 'final')
    """

    kind: Kind
    value: float | str | None = None

    @property
    def text(self) -> str:
        """The form of the result files; a threshold in the shortest form that gives the number back."""
        if self.value is None:
            return self.kind
        if self.kind == "tau":
            shortest = self.value if isinstance(self.value, str) else repr(float(self.value)).removesuffix(".0")
            return f"tau={shortest}"
        return f"{self.kind}={self.value:g}"

    def __bool__(self) -> bool:
        """Whether there is one: false for :data:`NOWHERE`."""
        return bool(self.kind)

    def __str__(self) -> str:
        return self.text

    @property
    def short(self) -> str:
        """A few letters for a column of a table.

        >>> at_speed_up(2).short, within_loss(0.5).short
        ('2×', 'loss 0.5')
        """
        return f"{self.number:g}×" if self.kind == "speed_up" else self.text.replace("=", " ")

    @property
    def number(self) -> float:
        """The value as a number; an error for ``median`` and for points that have none."""
        if self.value is None:
            raise ValueError(f"the operating point {self.text!r} has no number")
        return float(self.value)


NOWHERE = OperatingPoint("")
"""Of numbers that belong to no operating point, such as DIS."""
FINAL = OperatingPoint("final")
"""The last layer answers every sample."""


def at_speed_up(speed_up: float) -> OperatingPoint:
    """The operating point nearest to a speed-up."""
    return OperatingPoint("speed_up", float(speed_up))


def within_loss(loss: float) -> OperatingPoint:
    """The largest speed-up within a loss of so many points."""
    return OperatingPoint("loss", float(loss))


def within_harm(harm: float) -> OperatingPoint:
    """The largest certified speed-up with at most so many points of answers wrong where the last layer's is right."""
    return OperatingPoint("harm", float(harm))


def at_threshold(threshold: float | str) -> OperatingPoint:
    """A fixed threshold, or the word ``median``."""
    return OperatingPoint("tau", threshold if isinstance(threshold, str) else float(threshold))


@functools.cache
def operating_point(text: str) -> OperatingPoint:
    """The operating point that a text of the result files names.

    >>> operating_point("speed_up=4"), operating_point("tau=median").value, operating_point("") == NOWHERE
    (OperatingPoint(kind='speed_up', value=4.0), 'median', True)
    """
    kind, equals, value = text.partition("=")
    if not equals:
        if kind in ("", "final"):
            return OperatingPoint("final" if kind else "")
        raise ValueError(f"not an operating point: {text!r}")
    if kind == "tau":
        return at_threshold(value if value == "median" else float(value))
    if kind in ("speed_up", "loss", "harm"):
        return {"speed_up": at_speed_up, "loss": within_loss, "harm": within_harm}[kind](float(value))
    raise ValueError(f"not an operating point: {text!r}")
