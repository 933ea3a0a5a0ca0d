"""Figures of rankings and rates: DIS by layer as a heat map, both exit rates, risk against coverage."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import QuadMesh
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.reports.figures.drawing.parts import (
    Paper,
    cache_of,
    grid,
    handles_of,
    legend_below,
    of_entry,
    of_protocol,
)
from exitbench.reports.figures.looks import FigureSpec, looks_of
from exitbench.reports.figures.style import shortened
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import RATES

READABLE_CELL = 0.17
"""Inches that a cell of a heat map needs for its number."""

READABLE_SIGNALS = 24
"""With more rows than this, the numbers in a heat map would cover each other."""


def draw_dis(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """DIS of every signal (rows) at every internal layer (columns), one panel per task."""
    group = run.groups[spec.group]
    count = len(group.caches)
    across = paper.across(count, 3.0)
    down = math.ceil(count / across)
    height = 0.7 + 0.022 * paper.points * len(run.entries)
    drawing, panels = plt.subplots(down, across, figsize=(paper.width, height * down + 0.2), squeeze=False)
    values = []
    for cache in group.caches:
        rows = [
            [
                run.row(cache, spec.protocol, entry.signal, entry.parameters, "dis", NOWHERE, layer)
                for layer in range(1, cache.layers)
            ]
            for entry in run.entries
        ]
        values.append(np.array([[np.nan if row is None else row.value for row in line] for line in rows]))
    present = np.concatenate([value[~np.isnan(value)] for value in values]) if values else np.array([])
    low, high = (min(50.0, float(present.min())), float(present.max())) if present.size else (50.0, 100.0)
    names = [shortened(run.label(entry.signal, entry.parameters), 24) for entry in run.entries]
    for number, axes in enumerate(panels.flat):
        if number >= count:
            axes.set_axis_off()
            continue
        cache = group.caches[number]
        mesh = heat_map(
            axes,
            values[number],
            low,
            max(high, low + 1),
            numbers=len(run.entries) <= READABLE_SIGNALS and cell_width(paper, across, cache.layers) >= READABLE_CELL,
        )
        axes.set_xticks(np.arange(cache.layers - 1) + 0.5, [str(layer) for layer in range(1, cache.layers)])
        axes.set_yticks(np.arange(len(names)) + 0.5, [] if number % across else names)
        if number % across == across - 1:
            bar = drawing.colorbar(mesh, ax=axes, label="DIS")
            bar.outline.set_visible(False)
        axes.set_title(shortened(run.task_title(cache), 40))
        axes.set_xlabel("Layer")
    return drawing


def cell_width(paper: Paper, across: int, layers: int) -> float:
    """Inches of one layer's column, about: names stand on the left, a scale on the right."""
    return (paper.width - 0.2 * paper.points - 0.6) / across / max(layers - 1, 1)


def heat_map(axes: Axes, values: NDArray[np.float64], low: float, high: float, *, numbers: bool) -> QuadMesh:
    """Draw ``values`` [rows, columns], the first row on top, with the numbers in the cells if asked; NaN stays grey.

    Seaborn's own draws the whole figure once per panel to see whether labels overlap, a tenth of a report's time.
    """
    axes.set_facecolor("#eeeeee")
    mesh = axes.pcolormesh(
        np.ma.masked_invalid(values),
        vmin=low,
        vmax=high,
        cmap="cividis",
        edgecolors="white",
        linewidth=0.5,
        rasterized=True,
    )
    axes.invert_yaxis()
    axes.tick_params(length=0)
    for side in axes.spines.values():
        side.set_visible(False)
    if numbers:
        inks = relative_luminance(mesh.to_rgba(values))
        for (row, column), value in np.ndenumerate(values):
            if not math.isnan(value):
                # At 0.18 black and white stand out alike.
                ink = "#262626" if inks[row, column] > 0.18 else "white"
                # Never outside its panel, so the layout need not measure it.
                axes.text(
                    column + 0.5,
                    row + 0.5,
                    f"{value:.0f}",
                    ha="center",
                    va="center",
                    color=ink,
                    fontsize="small",
                    in_layout=False,
                )
    return mesh


def relative_luminance(colours: NDArray[np.float64]) -> NDArray[np.float64]:
    """How bright colours [..., 4] look, from 0 for black to 1 for white (WCAG's definition)."""
    channels = colours[..., :3]
    linear = np.where(channels <= 0.03928, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return np.asarray(linear @ np.array([0.2126, 0.7152, 0.0722]))


def draw_rates(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """Premature against delayed rates, one panel per task: filled over all decisions, hollow over reached ones."""
    group = run.groups[spec.group]
    at = at_speed_up(float(run.suite["rates_speed_up"]))
    count = len(group.caches)
    across = paper.across(count, 2.2)
    down = math.ceil(count / across)
    size = (paper.width, min(2.6, paper.width / across) * down)
    drawing, panels = plt.subplots(down, across, figsize=size, squeeze=False)
    looks = looks_of(run)
    unmatched = False
    for number, axes in enumerate(panels.flat):
        if number >= count:
            axes.set_axis_off()
            continue
        cache = group.caches[number]
        for look in looks:
            for decisions, filled in (("all", True), ("reached", False)):
                entry = look.entry
                rates = [
                    run.row(cache, spec.protocol, entry.signal, entry.parameters, rate, at, None, decisions)
                    for rate in RATES
                ]
                defined = [row for row in rates if row is not None and not math.isnan(row.value)]
                if len(defined) < 2:
                    continue
                x, y = defined
                if filled:
                    axes.hlines(y.value, x.low, x.high, color=look.colour, linewidth=0.8, alpha=0.5)
                    axes.vlines(x.value, y.low, y.high, color=look.colour, linewidth=0.8, alpha=0.6)
                faint = 0.35 if {"unmatched", "degenerate"} & {x.status, y.status} else 1.0
                unmatched = unmatched or faint < 1
                inside, edge, width = (look.colour, "white", 0.6) if filled else ("none", look.colour, 1.2)
                axes.plot(
                    [x.value],
                    [y.value],
                    color=look.colour,
                    marker=look.marker,
                    markersize=look.size,
                    linestyle="none",
                    markerfacecolor=inside,
                    markeredgecolor=edge,
                    markeredgewidth=width,
                    alpha=faint,
                )
        axes.set_title(shortened(run.task_title(cache), 30))
        axes.set_xlabel("Premature rate, percent")
        axes.set_ylabel("Delayed rate, percent" if number % across == 0 else "")
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        grid(axes)
    kinds = [
        Line2D([], [], color="#444444", marker="o", linestyle="none", label="all decisions"),
        Line2D(
            [], [], color="#444444", marker="o", markerfacecolor="none", linestyle="none", label="reached decisions"
        ),
    ]
    if unmatched:
        kinds.append(
            Line2D(
                [],
                [],
                color="#444444",
                marker="o",
                linestyle="none",
                alpha=0.35,
                label="pale: far from the wanted speed-up, or all exit at one layer",
            )
        )
    legend_below(drawing, handles_of(looks, lines=False) + kinds, paper)
    return drawing


def draw_risk(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """Error rate among the most certain against their share, one panel per layer of the suite."""
    cache = cache_of(run, spec)
    frame = of_protocol(run.frame_of("risk_coverage", cache), spec.protocol)
    looks = looks_of(run, cache, spec.protocol)
    layers = cache.table_layers
    across = paper.across(len(layers), 2.2)
    down = math.ceil(len(layers) / across)
    drawing, panels = plt.subplots(down, across, figsize=(paper.width, 2.3 * down), squeeze=False)
    for axes in panels.flat[len(layers) :]:
        axes.set_axis_off()
    for layer, axes in zip(layers, panels.flat, strict=False):
        there = frame[frame["layer"] == layer]
        for look in looks:
            curve = of_entry(there, look.entry).sort_values("coverage")
            axes.plot(curve["coverage"], curve["risk"], color=look.colour, linestyle=look.line, linewidth=1.4)
            if len(curve):
                last = curve.iloc[len(curve) // 2]
                axes.plot(
                    [last["coverage"]],
                    [last["risk"]],
                    color=look.colour,
                    marker=look.marker,
                    markersize=0.85 * look.size,
                    markeredgecolor="white",
                    markeredgewidth=0.5,
                    linestyle="none",
                )
        axes.set_title(f"Layer {layer}")
        axes.set_xlabel("Coverage")
        axes.set_xlim(0, 1)
        axes.set_ylim(bottom=0)
        grid(axes)
    for axes in panels[:, 0]:
        axes.set_ylabel("Risk (error rate), percent")
    legend_below(drawing, handles_of(looks), paper)
    return drawing
