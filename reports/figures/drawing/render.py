"""How a figure of :mod:`exitbench.reports.figures.catalogue` becomes a PDF, SVG or PNG of the size it is printed in.

The same results give the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure as Drawing
from matplotlib.text import Text

from exitbench.printable import printable
from exitbench.reports.figures.catalogue import ReportFigure
from exitbench.reports.figures.drawing.across import draw_profile, draw_ranks
from exitbench.reports.figures.drawing.panels import draw_exits, draw_scores
from exitbench.reports.figures.drawing.parts import PAPERS, Paper
from exitbench.reports.figures.drawing.ranking import draw_dis, draw_rates, draw_risk
from exitbench.reports.figures.drawing.shrink_svg import smaller
from exitbench.reports.figures.drawing.trade_off import draw_parameters, draw_trade_off
from exitbench.reports.figures.looks import FigureSpec
from exitbench.reports.run_data.finished_run import FinishedRun

mpl.use("agg")

Draw = Callable[[FinishedRun, FigureSpec, Paper], Drawing]
KINDS: dict[str, Draw] = {
    "trade-off": draw_trade_off,
    "dis": draw_dis,
    "rates": draw_rates,
    "exits": draw_exits,
    "parameters": draw_parameters,
    "risk": draw_risk,
    "scores": draw_scores,
    "ranks": draw_ranks,
    "profile": draw_profile,
}
MOST_PIXELS = 12000
"""The longest side of a PNG; a figure with very many rows is drawn with fewer dots per inch."""

DOTS = 300.0
"""Dots per inch of a PNG, and of what is rasterised in the other formats."""

WITHOUT_DATE: dict[str, dict[str, None]] = {
    "pdf": dict.fromkeys(("Creator", "Producer", "CreationDate")),
    "svg": dict.fromkeys(("Creator", "Date", "Format", "Type")),
    "png": {"Software": None},
}
"""Every format, with what is not to be written about it: the same results give the same bytes."""

SETTINGS: dict[str, Any] = {
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Verdana", "Arial"],
    "axes.titlesize": "medium",
    "axes.labelsize": "medium",
    "xtick.labelsize": "small",
    "ytick.labelsize": "small",
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.titley": 1.0,  # a place that is given need not be computed from all ticks; none of them stand on top
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "legend.fontsize": "small",
    "pdf.fonttype": 42,  # fonts that a publisher accepts
    "svg.fonttype": "none",  # text stays text: readable by screen readers, and signs DejaVu lacks still show
    "text.parse_math": False,  # a dollar in a name is a dollar
    "figure.constrained_layout.use": True,
    "path.simplify": True,
    "path.simplify_threshold": 0.5,
}
"""Settings over seaborn's ticks theme for paper."""


def lay_out(drawing: Drawing) -> None:
    """Put the panels where they belong, once: left to itself, every saving lays out twice and draws twice.

    A label that says nothing is given a place, or its place would be computed from all ticks, three times over.
    Within an ``rc_context``, since matplotlib asks the setting again after each saving.
    """
    for axes in drawing.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if not axis.get_label_text():
                axis.set_label_coords(0, 0)
    engine = drawing.get_layout_engine()
    if engine is not None:
        engine.execute(drawing)
    mpl.rcParams["figure.constrained_layout.use"] = False
    drawing.set_layout_engine(None)


def make_printable(drawing: Drawing) -> None:
    """Control characters in names as visible escapes: XML, and so SVG, refuses most of them."""
    for text in drawing.findobj(Text):
        assert isinstance(text, Text)
        shown = text.get_text()
        safe = "\n".join(map(printable, shown.split("\n")))  # a line feed is ours: two-line labels
        if safe != shown:
            text.set_text(safe)


def render(run: FinishedRun, figure: ReportFigure, kinds: Sequence[str], width: str) -> dict[str, bytes]:
    """The content of a figure's file for each of ``kinds``; no date, and nothing of the user's own settings.

    ``kinds`` are of :data:`WITHOUT_DATE`, ``width`` one of :data:`PAPERS`.
    """
    paper = PAPERS[width]
    theme = (
        sns.axes_style("ticks")
        | sns.plotting_context("paper")
        | SETTINGS
        | {"font.size": paper.points, "svg.hashsalt": figure.name}
    )
    files = {kind: io.BytesIO() for kind in kinds}
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(theme)
        # A sign without a glyph is a box in PNG and PDF; in the SVG, text is text and the reader's fonts show it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        drawing = KINDS[figure.spec.kind](run, figure.spec, paper)
        try:
            make_printable(drawing)
            lay_out(drawing)
            dots = min(DOTS, MOST_PIXELS / max(drawing.get_size_inches()))
            for kind, file in files.items():
                drawing.savefig(file, format=kind, dpi=dots, metadata=WITHOUT_DATE[kind])
        finally:
            plt.close(drawing)
    contents = {kind: file.getvalue() for kind, file in files.items()}
    if "svg" in contents:
        contents["svg"] = smaller(contents["svg"].decode(), figure.name).encode()
    return contents
