"""Figures across tasks and networks: the critical-difference diagram of ranks, and the performance profile."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from exitbench.benchmarks.statistics.average_ranks import AverageRanks
from exitbench.reports.figures.drawing.parts import Paper, handles_of, legend_below
from exitbench.reports.figures.looks import FigureSpec, looks_of
from exitbench.reports.figures.style import shortened
from exitbench.reports.run_data.finished_run import AcrossRow, FinishedRun

INK = "#262626"
LINES = 2.1
"""Heights of a letter from one line of text to the next."""


def draw_ranks(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """One panel by score and one by DIS: an axis of ranks, a line to every signal's name, bars over cliques."""
    rows = run.across_of(run.groups[spec.group], spec.protocol)
    measures = list(dict.fromkeys(row["measure"] for row in rows if row["statistic"] == "average_rank"))
    most = max(
        sum(row["measure"] == measure and row["statistic"] == "average_rank" for row in rows) for measure in measures
    )
    height = ((math.ceil(most / 2) + 3.5) * LINES + 4) * paper.points / 72
    drawing, panels = plt.subplots(len(measures), 1, figsize=(paper.width, height * len(measures)), squeeze=False)
    for axes, measure in zip(panels.flat, measures, strict=True):
        speed = f"{float(run.suite['primary_speed_up']):g}×"
        axes.set_title("by DIS" if measure == "dis" else f"by score near {speed}")
        rank_panel(axes, run, [row for row in rows if row["measure"] == measure])
    return drawing


def rank_panel(axes: Axes, run: FinishedRun, rows: Sequence[AcrossRow]) -> None:
    """The diagram of one measure; y counts lines of text downwards from the axis."""
    entries = sorted((row for row in rows if row["statistic"] == "average_rank"), key=lambda row: float(row["value"]))
    numbers = {row["statistic"]: float(row["value"]) for row in rows if row["statistic"] != "average_rank"}
    critical = numbers["critical_difference"]
    ranked = AverageRanks(np.array([row["value"] for row in entries]), numbers["friedman_p"], critical)
    count = len(entries)
    left, right = 1.0, float(count)
    axes.plot([left, right], [0, 0], color=INK, linewidth=1)
    for rank in range(1, count + 1):
        axes.plot([rank, rank], [0, -0.2], color=INK, linewidth=1)
        axes.text(rank, -0.3, str(rank), ha="center", va="bottom")
    axes.plot([left, left + critical], [-1.7, -1.7], color=INK, linewidth=2, solid_capstyle="butt")
    axes.text(left, -1.85, f"critical difference {critical:.2f}", va="bottom", fontsize="small")
    bars = [clique for clique in ranked.cliques if len(clique) > 1]
    for number, clique in enumerate(bars):
        ends = entries[clique[0]]["value"] - 0.04, entries[clique[-1]]["value"] + 0.04
        depth = 0.35 + 0.3 * number
        axes.plot(ends, [depth, depth], color=INK, linewidth=3, solid_capstyle="round")
    first_line = 0.35 + 0.3 * len(bars) + 0.6
    half = (count + 1) // 2
    looks = {(look.entry.signal, look.entry.parameters): look for look in looks_of(run)}
    margin = 0.04 * (right - left)
    for position, row in enumerate(entries):
        on_left = position < half
        depth = first_line + (position if on_left else count - 1 - position)
        end = left - margin if on_left else right + margin
        look = looks[row["signal_a"], row["parameters_a"]]
        axes.plot([row["value"], row["value"], end], [0, depth, depth], color=look.colour, linewidth=1.2)
        text = f"{shortened(look.label, 26)} ({row['value']:.2f})"
        axes.text(end, depth, f"{text} " if on_left else f" {text}", ha="right" if on_left else "left", va="center")
    width = 0.75 * (right - left)
    axes.set_xlim(left - width, right + width)
    axes.set_ylim(first_line + half - 0.3, -2.6)
    axes.set_axis_off()


def draw_profile(run: FinishedRun, spec: FigureSpec, paper: Paper) -> Drawing:
    """The share of runs above every normalised score, one line per signal with its band."""
    rows = [row for row in run.across_of(run.groups[spec.group], spec.protocol) if row["statistic"] == "profile"]
    drawing, axes = plt.subplots(figsize=(paper.width, 0.9 + 0.33 * paper.width))
    looks = [
        look
        for look in looks_of(run)
        if any((row["signal_a"], row["parameters_a"]) == (look.entry.signal, look.entry.parameters) for row in rows)
    ]
    for look in looks:
        name = look.entry.signal, look.entry.parameters
        own = [row for row in rows if (row["signal_a"], row["parameters_a"]) == name]
        levels = [row["level"] for row in own]
        sns.lineplot(
            x=levels, y=[row["value"] for row in own], ax=axes, color=look.colour, linestyle=look.line, errorbar=None
        )
        bounds = [row["low"] for row in own], [row["high"] for row in own]
        axes.fill_between(levels, *bounds, color=look.colour, alpha=0.12, linewidth=0)
    axes.set_xlabel("Normalised score: 0 random exits, 1 the oracle")
    axes.set_ylabel("Share of runs above it")
    axes.set_ylim(-0.02, 1.02)
    legend_below(drawing, handles_of(looks), paper)
    return drawing
