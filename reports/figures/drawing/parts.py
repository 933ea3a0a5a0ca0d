"""What all drawn figures share: their paper, the rows they read, legends that stay off the data, a faint grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D

from exitbench.reports.figures.looks import FigureSpec, Look
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry


@dataclass(frozen=True)
class Paper:
    """How wide a figure is printed, in inches, and the size of its text, in points: it goes into a paper unscaled."""

    width: float
    points: float

    def across(self, count: int, least: float) -> int:
        """How many of ``count`` panels stand beside each other when each is to be ``least`` inches wide."""
        return max(1, min(count, int(self.width / least)))


PAPERS = {"column": Paper(3.35, 7.0), "text": Paper(6.9, 8.0)}
"""One column, and the whole width, of a page of two columns (85 and 175 mm)."""


def cache_of(run: FinishedRun, spec: FigureSpec) -> CacheMetadata:
    """The cache a figure is of."""
    return run.cache_named[spec.cache]


def of_entry(frame: pd.DataFrame, entry: RunEntry) -> pd.DataFrame:
    """The rows of one entry."""
    return frame[(frame["signal"] == entry.signal) & (frame["parameters"] == entry.parameters)]


def of_protocol(frame: pd.DataFrame, protocol: str) -> pd.DataFrame:
    """The rows under one protocol."""
    return frame[frame["protocol"] == protocol]


def handles_of(looks: Sequence[Look], *, lines: bool = True) -> list[Line2D]:
    """Entries of a legend: colour and marker together."""
    return [
        Line2D(
            [],
            [],
            color=look.colour,
            marker=look.marker,
            linestyle="-" if lines else "none",
            markersize=0.85 * look.size,
            markeredgecolor="white",
            markeredgewidth=0.4,
            label=look.label,
        )
        for look in looks
    ]


def legend_below(drawing: Drawing, handles: Sequence[Line2D], paper: Paper) -> None:
    """A legend under all panels, in as many columns as fit; the figure grows by its rows."""
    longest = max((len(str(handle.get_label())) for handle in handles), default=0)
    column = (0.5 * longest + 5) * 0.83 * paper.points / 72
    columns = max(1, min(len(handles), int(paper.width / column)))
    rows = -(-len(handles) // columns)
    width, height = drawing.get_size_inches()
    drawing.set_size_inches(width, height + (1.4 * rows + 1) * paper.points / 72)
    drawing.legend(handles=list(handles), loc="outside lower center", ncols=columns, handlelength=2.2)


def grid(axes: Axes) -> None:
    """A faint grid behind the data."""
    axes.grid(visible=True, color="#e4e4e4", linewidth=0.6)
