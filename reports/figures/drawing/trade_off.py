"""Figures of scores: the trade-off against speed-up, and what the value of a parameter changes."""

from __future__ import annotations

import math

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation

from exitbench.benchmarks.results.operating_point import FINAL, NOWHERE, at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.reports.figures.drawing.parts import (
    Paper,
    cache_of,
    grid,
    handles_of,
    legend_below,
    of_entry,
    of_protocol,
)
from exitbench.reports.figures.looks import MOST_BANDS, FigureSpec, Look, looks_of
from exitbench.reports.figures.style import shortened
from exitbench.reports.run_data import published
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata

SCREEN_POINTS = 300
"""Points of a line; more cannot be told apart on a screen."""

PUBLISHED_LABELS = {published.BERT: "Published, BERT-base, test", published.ALBERT: "Published, ALBERT-base, test"}


def draw_trade_off(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """Score against speed-up of every signal with its band, the bounds, and the published points."""
    cache = cache_of(run, spec)
    looks = looks_of(run, cache, spec.protocol)
    curves = of_protocol(run.frame_of("curves", cache), spec.protocol)
    speeds = [float(speed) for speed in run.suite["speed_ups"]]
    right = max(1.25 * max([*speeds, float(run.suite["primary_speed_up"])]), 2.0)
    drawing, axes = plt.subplots(figsize=(paper.width, 0.9 + 0.33 * paper.width))
    lowest, highest = [], []
    for look in looks:
        curve = of_entry(curves, look.entry)
        points = curve[(curve["kind"] == "point") & (curve["speed_up"] <= right)].sort_values("speed_up")
        band = curve[(curve["kind"] == "band") & (curve["speed_up"] <= right)].sort_values("speed_up")
        if points.empty:
            continue
        keep = np.unique(np.linspace(0, len(points) - 1, SCREEN_POINTS).astype(int))
        axes.plot(
            points["speed_up"].to_numpy()[keep],
            points["score"].to_numpy()[keep],
            color=look.colour,
            linestyle=look.line,
            linewidth=1.6,
            zorder=3,
        )
        if len(looks) <= MOST_BANDS:
            axes.fill_between(band["speed_up"], band["low"], band["high"], color=look.colour, alpha=0.08, linewidth=0)
        lowest.append(float(points["score"].min()))
        highest.append(float(points["score"].max()))
        draw_operating_points(drawing, run, cache, spec.protocol, look, speeds)
    handles = handles_of(looks)
    handles += draw_bounds(axes, run, cache, spec.protocol, right)
    published_scores = draw_published(axes, run, cache, looks, right)
    if published_scores:
        lowest.append(min(published_scores))
        highest.append(max(published_scores))
        handles.append(
            Line2D(
                [],
                [],
                color="#444444",
                marker="o",
                markerfacecolor="none",
                linestyle="none",
                label=PUBLISHED_LABELS[published.score_file(cache.model)],
            )
        )
    if lowest:
        room = max(max(highest) - min(lowest), 1.0)
        axes.set_ylim(min(lowest) - 0.2 * room, min(max(highest) + 0.15 * room, 102))
    axes.set_xlim(1, right)
    ratio = "layers over mean exit layer" if cache.costs is None else "cost of the last layer over mean cost paid"
    axes.set_xlabel(f"Speed-up ({ratio})")
    axes.set_ylabel(f"{cache.measure_title}, percent")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}×")
    grid(axes)
    axes.set_title(shortened(f"{run.task_title(cache)}, {cache.model}, {spec.protocol}", 50))
    legend_below(drawing, handles, paper)
    return drawing


def draw_operating_points(
    drawing: Drawing, run: FinishedRun, cache: CacheMetadata, protocol: str, look: Look, speeds: list[float]
) -> None:
    """Markers where tables read the curve."""
    axes = drawing.axes[0]
    for speed in speeds:
        entry = look.entry
        coordinates = [
            run.row(cache, protocol, entry.signal, entry.parameters, measure, at_speed_up(speed))
            for measure in ("speed_up", cache.measure)
        ]
        if all(row is not None and not math.isnan(row.value) for row in coordinates):
            x, y = (row.value for row in coordinates if row is not None)
            aside = ScaledTranslation(look.shift / 72, 0, drawing.dpi_scale_trans)
            axes.plot(
                [x],
                [y],
                color=look.colour,
                marker=look.marker,
                markersize=look.size,
                markeredgecolor="white",
                markeredgewidth=0.6,
                linestyle="none",
                zorder=4,
                transform=axes.transData + aside,
            )


def draw_bounds(axes: Axes, run: FinishedRun, cache: CacheMetadata, protocol: str, right: float) -> list[Line2D]:
    """The final layer, the random exit policy, every fixed layer, and where the oracle is."""
    handles = []
    measure = cache.measure
    final = run.row(cache, protocol, "final", "", measure, FINAL)
    if final is not None and not math.isnan(final.value):
        axes.axhline(final.value, color="#222222", linewidth=0.9, linestyle=(0, (1, 2)), zorder=1)
        handles.append(Line2D([], [], color="#222222", linestyle=(0, (1, 2)), label="Final layer"))
    random_exit = bound_curve(run, cache, protocol, "random", right)
    if len(random_exit) and "random" not in {entry.signal for entry in run.entries}:
        axes.plot(
            random_exit["speed_up"],
            random_exit["score"],
            color="#777777",
            linewidth=1.2,
            linestyle=(0, (5, 3)),
            zorder=2,
        )
        handles.append(Line2D([], [], color="#777777", linestyle=(0, (5, 3)), label="Random"))
    layers = [
        (cache.layers / layer, run.row(cache, protocol, "fixed", "", measure, NOWHERE, layer))
        for layer in range(1, cache.layers + 1)
    ]
    fixed = [(speed, row.value) for speed, row in layers if row is not None and speed <= right]
    if fixed:
        between = bound_curve(run, cache, protocol, "fixed", right)
        axes.plot(between["speed_up"], between["score"], color="#999999", linewidth=1.0, zorder=2)
        axes.plot(*zip(*fixed, strict=True), color="#999999", marker="x", markersize=5, linestyle="none", zorder=2)
        handles.append(Line2D([], [], color="#999999", marker="x", linewidth=1.0, label="Fixed layer"))
    oracle = [run.row(cache, protocol, "oracle", "", name) for name in ("speed_up", measure)]
    if all(row is not None and not math.isnan(row.value) for row in oracle):
        x, y = (row.value for row in oracle if row is not None)
        axes.annotate(
            f"Oracle: {y:.1f} at {x:.2f}×",
            (1, 1),
            xycoords="axes fraction",
            xytext=(-4, -4),
            textcoords="offset points",
            ha="right",
            va="top",
            fontsize="small",
            color="#222222",
        )
    return handles


def bound_curve(run: FinishedRun, cache: CacheMetadata, protocol: str, bound: str, right: float) -> pd.DataFrame:
    """The curve of a bound up to a speed-up, from slow to fast."""
    curves = of_protocol(run.frame_of("curves", cache), protocol)
    shown = (curves["signal"] == bound) & (curves["kind"] == "point") & (curves["speed_up"] <= right)
    return curves[shown].sort_values("speed_up")


def draw_published(axes: Axes, run: FinishedRun, cache: CacheMetadata, looks: list[Look], right: float) -> list[float]:
    """Hollow markers for the paper's figures on this task, in the signal's colour; the scores that were drawn."""
    file = published.score_file(cache.model)
    drawn = []
    for look in looks:
        figure = published.published_score(file, look.entry.title, run.task_title(cache))
        if figure is None or figure.speed_up is None or figure.speed_up > right or look.entry.signal in BOUNDS:
            continue
        axes.plot(
            [figure.speed_up],
            [figure.value],
            color=look.colour,
            marker=look.marker,
            markersize=look.size,
            markerfacecolor="none",
            markeredgewidth=1.3,
            linestyle="none",
            zorder=5,
        )
        drawn.append(figure.value)
    return drawn


def reach(row: Row) -> tuple[float, float]:
    """How far the interval of a row reaches below and above its value; nowhere without one."""
    if math.isnan(row.low) or math.isnan(row.high):
        return 0.0, 0.0
    return max(row.value - row.low, 0.0), max(row.high - row.value, 0.0)


def draw_parameters(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """Score near the primary speed-up, and DIS at a middle layer, for each value of a grid and each task."""
    entry, group = run.entries[spec.entry], run.groups[spec.group]
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    across = paper.across(2, 2.4)
    down = 2 // across
    drawing, grid_of_panels = plt.subplots(down, across, figsize=(paper.width, 2.4 * down), squeeze=False)
    panels = list(grid_of_panels.flat)
    unmatched = False
    palette = sns.color_palette("colorblind", n_colors=max(len(group.caches), 1))
    handles = []
    for number, cache in enumerate(group.caches):
        layer = cache.table_layers[len(cache.table_layers) // 2]
        asked = ((cache.measure, at, None), ("dis", NOWHERE, layer))
        tint, sign = palette[number], "osD^vPX*hd"[number % 10]
        for axes, (measure, where, depth) in zip(panels, asked, strict=True):
            rows = [run.row(cache, spec.protocol, entry.signal, value, measure, where, depth) for value in entry.values]
            there = [
                (position, row) for position, row in enumerate(rows) if row is not None and not math.isnan(row.value)
            ]
            if not there:
                continue
            # Side by side within a value, so that intervals of several tasks do not cover each other.
            x = [position + 0.07 * (number - (len(group.caches) - 1) / 2) for position, _ in there]
            y = [row.value for _, row in there]
            spread = [reach(row) for _, row in there]
            axes.errorbar(
                x,
                y,
                yerr=np.transpose(spread),
                color=tint,
                marker=sign,
                markersize=5,
                linewidth=1.2,
                elinewidth=0.8,
                capsize=2,
            )
            far = [number for number, (_, row) in enumerate(there) if row.status in ("unmatched", "degenerate")]
            axes.plot(
                [x[index] for index in far],
                [y[index] for index in far],
                color=tint,
                marker=sign,
                markersize=5,
                markerfacecolor="white",
                linestyle="none",
                zorder=5,
            )
            unmatched = unmatched or bool(far)
        title = shortened(f"{run.task_title(cache)} (DIS: layer {layer})")
        handles.append(Line2D([], [], color=tint, marker=sign, label=title))
    if unmatched:
        handles.append(
            Line2D(
                [],
                [],
                color="#444444",
                marker="o",
                markerfacecolor="white",
                linestyle="none",
                label="hollow: far from the wanted speed-up, or all exit at one layer",
            )
        )
    names = [entry.varied_text(value).partition("=")[2] for value in entry.values]
    for axes, title in zip(panels, (f"Task score near {at.short}, percent", "DIS"), strict=True):
        axes.set_xticks(range(len(names)), names)
        axes.set_xlabel(entry.varied[0])
        axes.set_title(title)
        axes.set_xlim(-0.5, len(names) - 0.5)
        grid(axes)
    legend_below(drawing, handles, paper)
    return drawing
