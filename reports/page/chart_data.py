"""Risk against coverage and histograms of scores as compact values: what a task's charts are drawn from."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd

from exitbench.reports.page.explorer import lines_of, steps
from exitbench.reports.run_data.finished_run import FinishedRun

COVERAGES = 60
"""As many coverages as one curve keeps; a screen of a few hundred points shows no more."""


def chart_data(run: FinishedRun) -> dict[str, dict[str, Any]]:
    """By cache, under its leading protocol: a panel of curves per layer, a histogram per signal and layer."""
    numbers = {line: number for number, line in enumerate(lines_of(run))}
    scores = run.histograms[run.histograms["kind"] == "scores"]
    charts: dict[str, dict[str, Any]] = {}
    for cache in run.caches:
        protocol = run.leading_protocol([cache])
        risk, bins = (
            frame[(frame["cache"] == cache.name) & (frame["protocol"] == protocol)]
            for frame in (run.risk_coverage, scores)
        )
        charts[cache.name] = {"risk": risk_panels(risk, numbers), "scores": score_panels(bins, numbers)}
    return charts


def risk_panels(frame: pd.DataFrame, numbers: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    """One panel per layer with the curve of every entry."""
    panels = []
    for layer, at_layer in frame.groupby("layer", observed=True):
        lines: list[dict[str, Any]] = []
        for (signal, parameters), curve in at_layer.groupby(["signal", "parameters"], sort=False, observed=True):
            number = numbers.get((str(signal), str(parameters)))
            if number is None:
                continue
            kept = np.unique(np.linspace(0, len(curve) - 1, min(COVERAGES, len(curve))).round().astype(np.int64))
            coverage, risk = (curve[name].to_numpy(np.float64)[kept] for name in ("coverage", "risk"))
            lines.append({"signal": number, "coverage": steps(coverage / 0.001), "risk": steps(risk / 0.01)})
        panels.append({"layer": int(str(layer)), "lines": sorted(lines, key=lambda line: line["signal"])})
    return panels


def score_panels(frame: pd.DataFrame, numbers: dict[tuple[str, str], int]) -> list[dict[str, Any]]:
    """One histogram per entry and layer, right and wrong predictions apart."""
    panels = []
    names = ["signal", "parameters", "layer"]
    for (signal, parameters, layer), bins in frame.groupby(names, observed=True, sort=False):
        number = numbers.get((str(signal), str(parameters)))
        if number is None:
            continue
        low, high = float(bins["low"].min()), float(bins["high"].max())
        panels.append(
            {
                "signal": number,
                "layer": int(str(layer)),
                "low": edge_text(low),
                "high": edge_text(high),
                "right": steps(bins["right"].to_numpy(np.float64)),
                "wrong": steps(bins["wrong"].to_numpy(np.float64)),
            }
        )
    return sorted(panels, key=lambda panel: (panel["signal"], panel["layer"]))


def edge_text(value: float) -> str:
    """An end of the scores' range, as short as a label must be."""
    return f"{value:.3g}" if math.isfinite(value) else str(value)
