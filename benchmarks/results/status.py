"""How far a number may be trusted, as data: every value has a status and a reason.

``ok`` needs no comment. ``undefined``: the quantity does not exist on these samples (the value is NaN).
``unmatched``: no operating point lies near enough to what was asked. ``degenerate``: at this operating point every
sample exits at one and the same layer, so it shows a fixed layer and not the signal. ``no-exit``: a measure of a layer
at which the configuration cannot exit yet. ``unreliable``: there is a value, but its error bar says nothing. A reason
is one clause that a table can print under the number. Only what is ``ok`` takes part in best and tests, and only
``ok`` and ``unreliable`` in averages.
"""

from dataclasses import dataclass
from typing import Literal

Status = Literal["ok", "undefined", "unmatched", "degenerate", "no-exit", "unreliable"]

FEWEST_OF_A_KIND = 10
"""With fewer hard or fewer easy samples than this, no standard error is believed."""


def joined(*reasons: str) -> str:
    """Reasons as one clause after another, without the empty ones and each once."""
    return "; ".join(dict.fromkeys(filter(None, reasons)))


@dataclass(frozen=True)
class Verdict:
    """A status with its reason; the reason is empty exactly when the status is ``ok``."""

    status: Status = "ok"
    reason: str = ""


@dataclass(frozen=True)
class Estimate:
    """A value with its interval and standard error over ``n`` samples; NaN where undefined."""

    value: float
    low: float
    high: float
    std_err: float
    n: int
    status: Status = "ok"
    reason: str = ""


@dataclass(frozen=True)
class Difference:
    """A paired difference, first minus second, with its interval and two-sided p-value; NaN where undefined."""

    value: float
    low: float
    high: float
    std_err: float
    p_value: float
    status: Status = "ok"
    reason: str = ""
