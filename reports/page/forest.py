"""The picture of the first screen: every signal's paired difference in the main column, with its interval.

Positions are percents of the width, so that the drawing follows its place without a script and without shrinking text.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.vocabulary import DETECTABLE, is_claimed
from exitbench.reports.figures.looks import looks_of
from exitbench.reports.run_data.numbers import Number, fixed
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import pair_cell
from exitbench.reports.tables.pairs import pair_key
from exitbench.reports.verdict.main_column import MainColumn, reference_of

EDGE = 4.0
"""Percent of the width that stay free on either side."""
STEPS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0)


@dataclass(frozen=True)
class ForestRow:
    """One difference: its interval and its value as percents of the width, and whether it can be claimed."""

    label: str
    colour: str
    difference: Number
    p_value: Number | None
    low: float
    middle: float
    high: float
    claimed: bool


@dataclass(frozen=True)
class Forest:
    """A forest plot; ``around`` is the span within which a difference of one pair would not show.

    Every tick has its place, its text, and whether a narrow screen can do without it.
    """

    title: str
    caption: str
    rows: tuple[ForestRow, ...]
    zero: float
    ticks: tuple[tuple[float, str, bool], ...]
    around: tuple[float, float] | None


def forest_of(column: MainColumn, subject: RunEntry | None = None) -> Forest | None:
    """Each signal less the reference, or the subject less each other signal; None where nothing was tested."""
    reference = reference_of(column, subject)
    if reference is None:
        return None
    run, centre = column.run, (reference.signal, reference.parameters)
    colours = {(look.entry.signal, look.entry.parameters): look.colour for look in looks_of(run)}
    rows = []
    for entry in run.entries:
        name = (entry.signal, entry.parameters)
        pair, sign = column.differences().get((centre, name) if subject else (name, centre), (None, 1))
        cell = None if pair is None else pair_cell(pair, pair_key(pair), sign)
        if cell is not None and cell.numbers and cell.low is not None and cell.high is not None:
            rows.append((run.label(*name), colours[name], cell.numbers))
    if not rows:
        return None
    rows.sort(key=lambda row: row[2][0].value, reverse=subject is None)
    detectable = column.row(DETECTABLE, "")
    known = detectable is not None and not math.isnan(detectable.value)
    name_of_reference = run.label(*centre)
    what = f"{name_of_reference} less each other signal" if subject else f"Each signal less {name_of_reference}"
    title = f"{what}, score near {column.point.short}: {column.title}, {column.protocol}"
    return plotted(rows, title, detectable.value if detectable is not None and known else None)


def plotted(
    rows: Sequence[tuple[str, str, Sequence[Number]]], title: str, smallest: float | None, more: str = ""
) -> Forest:
    """A plot of differences, each a label, a colour and its numbers: the difference and the adjusted p-value.

    ``smallest`` is the difference that one pair could show, where it is known; ``more`` ends the caption.
    """
    ends = [end for _, _, (difference, *_) in rows for end in (difference.low or 0.0, difference.high or 0.0)]
    scale = Scale(min(0.0, *ends), max(0.0, *ends))
    caption = "Points with 95% intervals; filled: p of at most 0.05, adjusted by Holm's method over all pairs."
    if smallest is not None:
        caption += f" Grey: within ±{smallest:.1f} one pair would rarely show on these rows."
    return Forest(
        title=title,
        caption=f"{caption} {more}".strip(),
        rows=tuple(forest_row(label, colour, numbers, scale) for label, colour, numbers in rows),
        zero=scale.percent(0.0),
        ticks=tuple(
            (scale.percent(tick), fixed(tick, 1 if scale.step < 1 else 0), round(tick / scale.step) % 2 == 1)
            for tick in scale.ticks
        ),
        around=None if smallest is None else (scale.percent(-smallest), scale.percent(smallest)),
    )


def forest_row(label: str, colour: str, numbers: Sequence[Number], scale: Scale) -> ForestRow:
    """One row in percents."""
    difference, *p_value = numbers
    assert difference.low is not None
    assert difference.high is not None
    return ForestRow(
        label=label,
        colour=colour,
        difference=difference,
        p_value=p_value[0] if p_value else None,
        low=scale.percent(difference.low),
        middle=scale.percent(difference.value),
        high=scale.percent(difference.high),
        claimed=bool(p_value) and is_claimed(p_value[0].value),
    )


class Scale:
    """Differences to percents of the width."""

    def __init__(self, low: float, high: float) -> None:
        self.low, self.width = low, (high - low) or 1.0
        self.step = next((step for step in STEPS if self.width / step <= 8), STEPS[-1])

    def percent(self, value: float) -> float:
        """Where a value stands; what lies outside stands at the edge."""
        percent = EDGE + (100 - 2 * EDGE) * (value - self.low) / self.width
        return round(min(max(percent, 0.0), 100.0), 2)

    @property
    def ticks(self) -> list[float]:
        """Round values inside."""
        first, last = math.ceil(self.low / self.step), math.floor((self.low + self.width) / self.step)
        return [number * self.step for number in range(first, last + 1)]
