"""All figures of a run: which there are, and how one is drawn into an SVG and a PNG.

A figure is named by plain values and drawn from the result files alone, so that any worker process can draw it;
the same results give the same bytes.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import seaborn as sns
from matplotlib.figure import Figure as Drawing

from reports.figure_curves import MOST_BANDS, draw_parameters, draw_trade_off
from reports.figure_kinds import FigureSpec
from reports.figure_panels import draw_exits, draw_scores
from reports.figure_ranking import draw_dis, draw_rates, draw_risk
from reports.layout import slug, table_name
from reports.run import Run
from reports.style import SETTINGS
from reports.svg import smaller

Draw = Callable[[Run, FigureSpec], Drawing]
KINDS: dict[str, Draw] = {
    "trade-off": draw_trade_off,
    "dis": draw_dis,
    "rates": draw_rates,
    "exits": draw_exits,
    "parameters": draw_parameters,
    "risk": draw_risk,
    "scores": draw_scores,
}
MOST_PIXELS = 12000
"""The longest side of a PNG; a figure with very many rows is drawn with fewer dots per inch."""


@dataclass(frozen=True)
class Figure:
    """A figure for a page: where it belongs and what it says to those who cannot see it."""

    name: str
    title: str
    topic: str
    caption: str
    alt: str
    cache: str
    protocol: str
    spec: FigureSpec


def figures_of(run: Run) -> list[Figure]:
    """Every figure the run has data for, by question; per task under the first protocol where all would look alike."""
    found: list[Figure] = []
    first = run.protocols[0] if run.protocols else ""
    primary = f"{float(run.suite['primary_speed_up']):g}×"
    drawn = {(one.cache, one.protocol) for one in run.rows.values()}

    def add(kind: str, topic: str, title: str, caption: str, spec: FigureSpec, *name: str) -> None:
        parts = [kind, *name]
        if len(run.protocols) > 1:
            parts.append(spec.protocol)
        alt = f"{title}. {caption} The numbers stand in the tables of the same question."
        found.append(Figure("-".join(parts), title, topic, caption, alt, spec.cache, spec.protocol, spec))

    for protocol in run.protocols:
        for cache in run.caches:
            if (cache.name, protocol) not in drawn:
                continue
            place = f"{run.task_title(cache)}, {cache.model}, {protocol}"
            spec = FigureSpec("trade-off", protocol, cache=cache.name)
            bands = "bands 95% intervals" if len(run.entries) <= MOST_BANDS else "without bands for so many signals"
            add("trade-off", "main", f"Task score against speed-up: {place}",
                f"Lines are trade-offs, {bands}, markers the matched readings; hollow markers are published figures of "
                "another backbone.", spec, slug(cache.name))  # fmt: skip
            if protocol != first:
                continue
            layers = ", ".join(map(str, cache.table_layers))
            add("exits", "main", f"Exit layers near {primary}: {place}",
                "How many samples leave at each layer, right and wrong answers apart.",
                FigureSpec("exits", protocol, cache=cache.name), slug(cache.name))  # fmt: skip
            add("risk", "dis", f"Risk against coverage at layers {layers}: {place}",
                "Error rate among the most certain share of the samples, lower is better.",
                FigureSpec("risk", protocol, cache=cache.name), slug(cache.name))  # fmt: skip
            add("scores", "dis", f"Scores of right and wrong predictions at layers {layers}: {place}",
                "The further apart the two, the better the signal tells right from wrong.",
                FigureSpec("scores", protocol, cache=cache.name), slug(cache.name))  # fmt: skip
        for number, group in enumerate(run.groups):
            if not any((cache.name, protocol) in drawn for cache in group.caches):
                continue
            place = f"{run.group_title(group)}, {protocol}"
            name = table_name(run, "", group=group).strip("-")
            own = [name] if name else []
            add("dis", "dis", f"DIS by layer and signal: {place}", "100 is a perfect ranking, 50 is chance.",
                FigureSpec("dis", protocol, group=number), *own)  # fmt: skip
            add("rates", "rates", f"Premature against delayed exiting rates: {place}",
                "Filled: all decisions; hollow: reached decisions. Nearer to the lower left corner is better.",
                FigureSpec("rates", protocol, group=number), *own)  # fmt: skip
            for position, entry in enumerate(run.entries):
                if entry.is_grid and len(entry.varied) == 1:
                    again = [one.signal for one in run.entries if one.is_grid].count(entry.signal) > 1
                    add("parameters", "parameters",
                        f"{run.label(entry.signal, entry.parameters)} by {entry.varied[0]}: {place}",
                        f"Task score near {primary} and DIS at a middle layer for each value, with 95% intervals.",
                        FigureSpec("parameters", protocol, group=number, entry=position),
                        slug(entry.text if again else entry.signal), *own)  # fmt: skip
    return found


@lru_cache(maxsize=1)
def opened(path: Path, stamp: int) -> Run:
    """A run, kept for the next figure of the same process; ``stamp`` tells one run in a folder from the next."""
    return Run(path)


def draw(run_dir: Path, name: str, folder: Path) -> None:
    """Draw one figure of :func:`figures_of` into ``folder`` as ``<name>.svg`` and ``<name>.png``."""
    run = opened(run_dir, (run_dir / "run.json").stat().st_mtime_ns)
    figure = next(one for one in figures_of(run) if one.name == name)
    svg, png = render(run, figure)
    folder.mkdir(parents=True, exist_ok=True)
    for ending, content in (("svg", svg), ("png", png)):
        temporary = folder / f"{name}.{ending}.part"
        temporary.write_bytes(content)
        temporary.replace(folder / f"{name}.{ending}")


def lay_out(drawing: Drawing) -> None:
    """Put the panels where they belong, once: left to itself, every saving lays out twice and draws twice.

    Within an ``rc_context``, since matplotlib asks the setting again after each saving.
    """
    engine = drawing.get_layout_engine()
    if engine is not None:
        engine.execute(drawing)
    mpl.rcParams["figure.constrained_layout.use"] = False
    drawing.set_layout_engine(None)


def render(run: Run, figure: Figure) -> tuple[bytes, bytes]:
    """A figure as SVG and PNG; neither holds a date."""
    theme = sns.axes_style("ticks") | SETTINGS | {"svg.hashsalt": figure.name}
    svg, png = io.BytesIO(), io.BytesIO()
    with mpl.rc_context(theme), warnings.catch_warnings():
        # A sign without a glyph is a box in the PNG; in the SVG, text is text and the reader's fonts show it.
        warnings.filterwarnings("ignore", message=r"Glyph .* missing from font")
        drawing = KINDS[figure.spec.kind](run, figure.spec)
        try:
            lay_out(drawing)
            drawing.savefig(svg, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
            dots = min(150.0, MOST_PIXELS / max(drawing.get_size_inches()))
            drawing.savefig(png, format="png", dpi=dots, metadata={"Software": None})
        finally:
            plt.close(drawing)
    return smaller(svg.getvalue().decode(), figure.name).encode(), png.getvalue()
