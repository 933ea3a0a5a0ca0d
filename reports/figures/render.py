"""How a figure of :mod:`exitbench.reports.figures.catalogue` is drawn into an SVG and a PNG.

From plain values and the result files alone, so that any worker process can do it; the same results give the same
bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure as Drawing
from matplotlib.text import Text

from exitbench.printable import printable
from exitbench.reports.figures.across import draw_profile, draw_ranks
from exitbench.reports.figures.catalogue import ReportFigure
from exitbench.reports.figures.looks import FigureSpec
from exitbench.reports.figures.panels import draw_exits, draw_scores
from exitbench.reports.figures.ranking import draw_dis, draw_rates, draw_risk
from exitbench.reports.figures.shrink_svg import smaller
from exitbench.reports.figures.style import SETTINGS
from exitbench.reports.figures.trade_off import draw_parameters, draw_trade_off
from exitbench.reports.run_data.finished_run import FinishedRun

Draw = Callable[[FinishedRun, FigureSpec], Drawing]
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

QUICK = 3
"""How hard a PNG is compressed: 6 would make files a tenth smaller and take three times as long."""


@lru_cache(maxsize=1)
def run_of(path: Path, stamp: int) -> FinishedRun:
    """A run, kept for the next figure of the same process; ``stamp`` tells one run in a folder from the next."""
    return FinishedRun(path)


def draw(run_dir: Path, figure: ReportFigure, folder: Path) -> None:
    """Draw a figure of a run into ``folder`` as ``<name>.svg`` and ``<name>.png``, a unit's scratch."""
    svg, png = render(run_of(run_dir, (run_dir / "run.json").stat().st_mtime_ns), figure)
    folder.mkdir(parents=True, exist_ok=True)
    for ending, content in (("svg", svg), ("png", png)):
        (folder / f"{figure.name}.{ending}").write_bytes(content)


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


def render(run: FinishedRun, figure: ReportFigure) -> tuple[bytes, bytes]:
    """A figure as SVG and PNG; neither holds a date, nor anything of the user's settings of matplotlib."""
    theme = sns.axes_style("ticks") | SETTINGS | {"svg.hashsalt": figure.name}
    svg, png = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(), warnings.catch_warnings():
        mpl.rcdefaults()
        mpl.rcParams.update(theme)
        # A sign without a glyph is a box in the PNG; in the SVG, text is text and the reader's fonts show it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        drawing = KINDS[figure.spec.kind](run, figure.spec)
        try:
            make_printable(drawing)
            lay_out(drawing)
            drawing.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
            dots = min(150.0, MOST_PIXELS / max(drawing.get_size_inches()))
            drawing.savefig(
                png, format="png", dpi=dots, metadata={"Software": None}, pil_kwargs={"compress_level": QUICK}
            )
        finally:
            plt.close(drawing)
    return smaller(svg.getvalue().decode(), figure.name).encode(), png.getvalue()
