"""The pictures of the evidence page, all of one form: a row for every place or choice, a dot for every number in it.

What is drawn is plain data, so that a sentence and its picture are made from the same values.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any

INK, PAPER, FIRST, SECOND = "#262626", "#ffffff", "#882255", "#117733"
ROW, TOP = 0.3, 0.95
"""Inches for a row, and for title and axis of a panel."""


@dataclass(frozen=True)
class Dot:
    """A number with its 95% interval, where it has one; ``claimed`` where it is shown to differ from the line."""

    value: float
    low: float = math.nan
    high: float = math.nan
    claimed: bool = False
    second: bool = False
    """Whether it belongs to the second kind of dots of its chart."""


@dataclass(frozen=True)
class DotRow:
    """A line of dots with its label."""

    label: str
    dots: tuple[Dot, ...]


@dataclass(frozen=True)
class DotPanel:
    """Lines under one title."""

    title: str
    rows: tuple[DotRow, ...]


@dataclass(frozen=True)
class DotChart:
    """A picture: its file name, what it shows in words, the axis, and where ``line`` (no difference) stands."""

    name: str
    caption: str
    axis: str
    panels: tuple[DotPanel, ...]
    line: float | None = 0.0
    kinds: tuple[str, str] = ("", "")
    """What the first and the second kind of dots are, where there are two."""

    @property
    def is_empty(self) -> bool:
        return not any(row.dots for panel in self.panels for row in panel.rows)


TEXT_SIZES = {
    "font.size": 9,
    "axes.titlesize": 10,
    "xtick.labelsize": "medium",
    "ytick.labelsize": "medium",
    "legend.fontsize": 8.5,
    "figure.dpi": 100,
    "savefig.dpi": 150,
}
"""These pictures stand on a page of the docs, not in a column of a paper."""


def drawn_svg(chart: DotChart) -> str:
    """The picture as SVG; equal charts give equal text."""
    import matplotlib as mpl
    import matplotlib.pyplot as plt
    import seaborn as sns
    from matplotlib.lines import Line2D

    from exitbench.reports.figures.drawing.render import SETTINGS
    from exitbench.reports.figures.drawing.shrink_svg import smaller

    settings: Any = {**SETTINGS, **TEXT_SIZES, "svg.hashsalt": chart.name}
    with sns.axes_style("ticks"), mpl.rc_context(settings):
        heights = [max(1, len(panel.rows)) for panel in chart.panels]
        drawing, axes = plt.subplots(
            len(heights),
            1,
            figsize=(7.0, ROW * sum(heights) + TOP * len(heights)),
            height_ratios=heights,
            sharex=True,
            squeeze=False,
        )
        for panel_axes, panel in zip(axes.flat, chart.panels, strict=True):
            draw_panel(panel_axes, panel, chart.line)
        axes.flat[-1].set_xlabel(chart.axis)
        if any(chart.kinds):
            handles = [
                Line2D([], [], color=colour, marker=marker, linestyle="", label=kind)
                for colour, marker, kind in zip((FIRST, SECOND), "oD", chart.kinds, strict=True)
            ]
            drawing.legend(handles=handles, loc="outside upper right", ncols=2)
        file = StringIO()
        drawing.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
        plt.close(drawing)
    return smaller(file.getvalue(), chart.name)


def draw_panel(axes: object, panel: DotPanel, line: float | None) -> None:
    """One panel: rows from top to bottom, dots of a row a little apart so that equal ones can be seen."""
    from matplotlib.axes import Axes

    assert isinstance(axes, Axes)
    if line is not None:
        axes.axvline(line, color=INK, linewidth=0.8, linestyle=":")
    for number, row in enumerate(panel.rows):
        for dot, shift in zip(row.dots, dot_shifts(len(row.dots)), strict=True):
            colour = SECOND if dot.second else FIRST
            marker, size, width = ("D", 5, 1.2) if dot.second else ("o", 4, 0.7)
            if not math.isnan(dot.low + dot.high):
                axes.plot([dot.low, dot.high], [number + shift] * 2, color=colour, linewidth=width, alpha=0.5)
            fill = colour if dot.claimed or line is None else PAPER
            axes.plot(
                *(dot.value, number + shift, marker),
                color=colour,
                markerfacecolor=fill,
                markersize=size,
                markeredgewidth=0.9,
                zorder=3 if dot.second else 2,
            )
    axes.set_yticks(range(len(panel.rows)), [row.label for row in panel.rows])
    axes.set_ylim(len(panel.rows) - 0.5, -0.5)
    axes.set_title(panel.title)


def dot_shifts(count: int) -> Sequence[float]:
    """Shifts of the dots of one row, centred.

    >>> dot_shifts(1), dot_shifts(3)
    ([0.0], [-0.3, 0.0, 0.3])
    """
    return [0.0] if count == 1 else [0.6 * number / (count - 1) - 0.3 for number in range(count)]
