"""What is measured: a row is one ratio with its goal, a topic is one benchmark file's rows and what to know of them.

Every benchmark file of this folder defines ``TOPIC``; :func:`topics` reads them all, in the order of the page.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

from exitbench.benchmarks.speed.harness.ratios import Measured

ORDER = (
    "test_cache_speed",
    "test_measures_speed",
    "test_run_speed",
    "test_memory_speed",
    "harness.large_runs",
    "test_collect_speed",
    "test_live_speed",
    "test_start_speed",
    "test_loop_speed",
    "test_today_speed",
)
"""The modules that have a topic, in the order of the page."""

MODULES = tuple(name for name in ORDER if name.startswith("test_"))
"""The benchmark files in the order of the table; the others measure for hours, and only when they are asked to."""

MARGIN = 0.4
"""By how much a ratio may be worse than the committed one, unless its row says otherwise.

Wider than what a neighbour on a two-core machine does to interleaved medians, and narrower than the slips that matter:
a lost vectorised path, a sort made twice or a second pass over the bytes cost a factor of two or more.
"""

PAST_GOAL = 0.1
"""How far past its goal a ratio may be found whose committed value meets it: the machine's noise."""

Better = Literal["higher", "lower"]
Unit = Literal["x", "%"]


@dataclass(frozen=True)
class SpeedRow:
    """One ratio. ``name`` is its key for good; ``what`` says what is divided by what.

    ``limit`` is a paragraph for the page: what holds the ratio where it is, and which designs were tried. A goal that
    is not met needs one.
    """

    name: str
    what: str
    better: Better
    goal: float | None = None
    unit: Unit = "x"
    margin: float = MARGIN
    limit: str = ""

    def meets_goal(self, ratio: float) -> bool:
        """Whether the goal is met; a row without one has nothing to miss."""
        if self.goal is None:
            return True
        return ratio >= self.goal if self.better == "higher" else ratio <= self.goal

    def worse_by(self, ratio: float, before: float) -> float:
        """How much worse ``ratio`` is than ``before`` as a part of it, whichever direction is better; below 0: better.

        >>> row = SpeedRow("a", "ours / theirs", "lower")
        >>> round(row.worse_by(3.0, 2.0), 3), round(row.worse_by(1.0, 2.0), 3)
        (0.5, -0.5)
        """
        return (before / ratio if self.better == "higher" else ratio / before) - 1

    def text(self, ratio: float) -> str:
        """A ratio as it is printed.

        >>> SpeedRow("a", "", "lower", unit="%").text(0.0123), SpeedRow("a", "", "higher").text(1234.5)
        ('1.23%', '1,230x')
        """
        value = 100 * ratio if self.unit == "%" else ratio
        digits = f"{float(f'{value:.3g}'):,.10g}"
        return f"{digits}{self.unit}"

    @property
    def goal_text(self) -> str:
        if self.goal is None:
            return ""
        return f"{'at least' if self.better == 'higher' else 'at most'} {self.text(self.goal)}"


@dataclass(frozen=True)
class Topic:
    """The rows of one benchmark file; ``text`` says how they are measured, for a reader of the page.

    ``table`` is Markdown that stands behind the text as it is.
    """

    title: str
    text: str
    rows: tuple[SpeedRow, ...]
    table: str = ""


Record = Callable[[Callable[[], Mapping[SpeedRow, Measured]]], None]
"""What the fixture ``record_ratios`` gives: call it with a function that measures several rows."""

RecordOne = Callable[[SpeedRow, Callable[[], Measured]], None]
"""What the fixture ``record_ratio`` gives: call it with a row and a function that measures it."""


def topics() -> tuple[Topic, ...]:
    """The topics of all benchmark files, and of what is measured apart from them."""
    return tuple(importlib.import_module(f"exitbench.benchmarks.speed.{name}").TOPIC for name in ORDER)


def all_rows() -> dict[str, SpeedRow]:
    """Every row by its name; two of one name are a mistake of whoever wrote the second."""
    rows: dict[str, SpeedRow] = {}
    for topic in topics():
        for row in topic.rows:
            if row.name in rows:
                raise ValueError(f"two rows are called {row.name!r}")
            rows[row.name] = row
    return rows
