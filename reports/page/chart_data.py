"""Risk against coverage and histograms of scores as compact values: what a task's charts are drawn from."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd

from exitbench.reports.page.explorer import lines_of, steps
from exitbench.reports.page.page_room import PageRoom, by_network
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata

CHARTS_SHARE = 0.4
"""How much of a page's free room the charts of tasks may take."""
COVERAGES = 60
"""As many coverages as one curve keeps; a screen of a few hundred points shows no more."""


def chart_data(run: FinishedRun, room: PageRoom) -> dict[str, dict[str, Any]]:
    """By cache, under its leading protocol: a panel of curves per layer, a histogram per signal and layer.

    Caches that a page has no room for are not there.
    """
    numbers = {line: number for number, line in enumerate(lines_of(run))}
    risks = rows_by_cache(run.risk_coverage)
    bins = rows_by_cache(run.histograms[run.histograms["kind"] == "scores"])

    def charts_of(cache: CacheMetadata) -> dict[str, Any]:
        key = (cache.name, run.leading_protocol([cache]))
        return {"risk": risk_panels(risks(key), numbers), "scores": score_panels(bins(key), numbers)}

    kept = room.kept(CHARTS_SHARE, ((cache.name, partial(charts_of, cache)) for cache in by_network(run.caches)))
    return {cache.name: kept[cache.name] for cache in run.caches if cache.name in kept}


def rows_by_cache(frame: pd.DataFrame) -> Callable[[tuple[str, str]], pd.DataFrame]:
    """What gives the rows of a cache and protocol, found in one pass: a search for each cache is one for each."""
    positions = frame.groupby(["cache", "protocol"], observed=True, sort=False).indices
    nothing = frame.iloc[:0]
    return lambda key: frame.iloc[positions[key]] if key in positions else nothing


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
