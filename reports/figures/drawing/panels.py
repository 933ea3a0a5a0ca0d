"""Figures of many small panels: exit layers of each signal, and its scores for right and wrong predictions."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure as Drawing
from matplotlib.patches import Patch

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.reports.figures.drawing.parts import Paper, cache_of, of_entry, of_protocol
from exitbench.reports.figures.looks import FigureSpec, looks_of
from exitbench.reports.figures.style import shortened
from exitbench.reports.run_data.finished_run import FinishedRun

RIGHT, WRONG = "#0072b2", "#d55e00"
MOST_ROWS = 16
"""Signals in one figure of scores; the caption of a larger run says that there are more."""


def kinds_legend(drawing: Drawing, words: tuple[str, str], note: str = "") -> None:
    """Right and wrong at the top left, with a remark."""
    patches = [Patch(color=RIGHT, label=words[0]), Patch(color=WRONG, label=words[1])]
    drawing.legend(handles=patches, loc="outside upper left", ncols=2, title=note or None, alignment="left")


def fixed_panels(drawing: Drawing, left: float, bottom: float, top: float, gaps: tuple[float, float]) -> None:
    """Margins and gaps (across, down) in inches: what stands beside many panels is known, measuring it is slow."""
    width, height = drawing.get_size_inches()
    grid = drawing.axes[0].get_gridspec()
    assert grid is not None
    inside = (width - left - 0.1, height - bottom - top)
    panel = [
        (size - gap * (count - 1)) / count
        for size, gap, count in zip(inside, gaps, (grid.ncols, grid.nrows), strict=True)
    ]
    drawing.subplots_adjust(
        left / width, bottom / height, 1 - 0.1 / width, 1 - top / height, gaps[0] / panel[0], gaps[1] / panel[1]
    )


def draw_exits(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """How many samples exit at each layer near the primary speed-up, one panel per signal."""
    cache = cache_of(run, spec)
    speed = float(run.suite["primary_speed_up"])
    frame = of_protocol(run.frame_of("histograms", cache), spec.protocol)
    frame = frame[(frame["kind"] == "exits") & (frame["operating_point"] == at_speed_up(speed).text)]
    looks = looks_of(run)
    across = paper.across(len(looks), 1.6)
    down = math.ceil(len(looks) / across)
    size = (paper.width, 1.3 * down + 0.9)
    drawing, panels = plt.subplots(down, across, figsize=size, squeeze=False, sharex=True, sharey=True, layout="none")
    fixed_panels(drawing, left=0.065 * paper.points, bottom=0.4, top=0.5, gaps=(0.15, 0.3))
    edges = np.arange(0.5, cache.layers + 1)
    for number, axes in enumerate(panels.flat):
        if number >= len(looks):
            axes.set_axis_off()
            continue
        look = looks[number]
        bars = of_entry(frame, look.entry).sort_values("layer")
        axes.set_title(shortened(look.label, 22), color=look.colour, fontsize=paper.points)
        if bars.empty:
            axes.text(
                0.5, 0.5, "no operating point", transform=axes.transAxes, ha="center", va="center", color="#666666"
            )
            continue
        share = 100 / max(int(bars["count"].sum()), 1)
        right, both = bars["right"].to_numpy() * share, bars["count"].to_numpy() * share
        axes.stairs(both, edges, baseline=right, fill=True, color=WRONG)
        axes.stairs(right, edges, fill=True, color=RIGHT)
    for axes in panels[-1]:
        axes.set_xlabel("Exit layer")
    for axes in panels[:, 0]:
        axes.set_ylabel("Percent")
    panels[0, 0].set_xticks(range(1, cache.layers + 1, max(1, cache.layers // 6)))
    panels[0, 0].set_xlim(0.4, cache.layers + 0.6)
    kinds_legend(drawing, ("right answers", "wrong answers"))
    return drawing


def draw_scores(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """The scores of right and wrong predictions, signals down and the suite's layers across; each kind sums to one."""
    cache = cache_of(run, spec)
    frame = of_protocol(run.frame_of("histograms", cache), spec.protocol)
    frame = frame[frame["kind"] == "scores"]
    looks = looks_of(run)[:MOST_ROWS]
    layers = cache.table_layers
    size = (paper.width, 0.7 * len(looks) + 0.9)
    drawing, panels = plt.subplots(len(looks), len(layers), figsize=size, squeeze=False, layout="none")
    left_out = len(run.entries) - len(looks)
    fixed_panels(drawing, left=0.15 * paper.points, bottom=0.25, top=0.7 if left_out else 0.5, gaps=(0.12, 0.25))
    for row, look in enumerate(looks):
        histogram = of_entry(frame, look.entry)
        for column, layer in enumerate(layers):
            axes = panels[row, column]
            there = histogram[histogram["layer"] == layer].sort_values("low")
            axes.set_yticks([])
            axes.spines["left"].set_visible(False)
            axes.tick_params(labelsize="x-small", length=2, pad=1)
            axes.locator_params(axis="x", nbins=4)
            if row == 0:
                axes.set_title(f"Layer {layer}")
            if column == 0:
                axes.set_ylabel(
                    shortened(look.label, 18), rotation=0, ha="right", va="center", color=look.colour, fontsize="medium"
                )
            if there.empty:
                axes.text(
                    0.5,
                    0.5,
                    "no score yet",
                    transform=axes.transAxes,
                    ha="center",
                    va="center",
                    color="#666666",
                    fontsize="small",
                )
                axes.set_xticks([])
                continue
            edges = np.append(there["low"].to_numpy(), there["high"].to_numpy()[-1])
            for kind, tint in (("right", RIGHT), ("wrong", WRONG)):
                counts = there[kind].to_numpy().astype(float)
                if counts.sum():
                    axes.stairs(
                        counts / counts.sum(), edges, fill=True, facecolor=(tint, 0.3), edgecolor=tint, linewidth=0.8
                    )
    note = f"The first {len(looks)} of {len(run.entries)} signals" if left_out else ""
    kinds_legend(drawing, ("right predictions", "wrong predictions"), note)
    return drawing
