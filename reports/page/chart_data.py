"""Risk against coverage and histograms of scores as compact values: what a task's charts are drawn from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from exitbench.reports.page.curve_points import steps
from exitbench.reports.page.explorer import lines_of
from exitbench.reports.page.grouped_columns import GroupedColumns, grouped_columns
from exitbench.reports.page.page_room import PageRoom, by_network
from exitbench.reports.page.stored_points import CURVE_KEY
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata

CHARTS_SHARE = 0.6
"""How much of a page's free room the charts of tasks may take."""
COVERAGES = 60
"""As many coverages as one curve keeps; a screen of a few hundred points shows no more."""


Lines = Mapping[tuple[str, str], int]
"""The number of every line of a page, by signal and parameters."""


def chart_data(run: FinishedRun, room: PageRoom) -> dict[str, dict[str, Any]]:
    """By cache, under its leading protocol: a panel of curves per layer, a histogram per signal and layer.

    Caches that a page has no room for are not there.
    """
    return Charts(run).data(room)


class Charts:
    """The charts of one run. Of result files only the rows of those caches are read that a page has room for."""

    def __init__(self, run: FinishedRun) -> None:
        self.run = run
        order = [cache.name for cache in by_network(run.caches)]
        self._risks, self._histograms = (run.files.by_cache(name, order) for name in ("risk_coverage", "histograms"))
        self._numbers = {line: number for number, line in enumerate(lines_of(run))}
        self._made: dict[str, dict[str, Any]] = {}

    def data(self, room: PageRoom) -> dict[str, dict[str, Any]]:
        """By cache the charts that a page has room for."""
        caches = self.run.caches
        kept = room.kept(CHARTS_SHARE, ((cache.name, partial(self._charts, cache)) for cache in by_network(caches)))
        return {cache.name: kept[cache.name] for cache in caches if cache.name in kept}

    def _charts(self, cache: CacheMetadata) -> dict[str, Any]:
        """The charts of a cache, made once."""
        if cache.name not in self._made:
            key = (cache.name, self.run.leading_protocol([cache]))
            risks = ChartRows(grouped_columns(self._risks.of(cache.name), CURVE_KEY), self._numbers)
            bins = ChartRows(grouped_columns(self._histograms.of(cache.name), CURVE_KEY), self._numbers, kind="scores")
            self._made[cache.name] = {"risk": risk_panels(risks, key), "scores": score_panels(bins, key)}
        return self._made[cache.name]


class ChartRows:
    """Columns by cache and protocol, and there by line and layer; with ``kind`` only the rows of that kind."""

    def __init__(self, columns: GroupedColumns, numbers: Lines, kind: str = "") -> None:
        self.columns, self._kind = columns, kind
        self._lines: dict[tuple[str, str], list[tuple[int, NDArray[np.int64]]]] = {}
        for (cache, protocol, signal, parameters), rows in columns.rows_of.items():
            if (signal, parameters) in numbers:
                self._lines.setdefault((cache, protocol), []).append((numbers[signal, parameters], rows))

    def by_layer(self, key: tuple[str, str]) -> Iterator[tuple[int, int, NDArray[np.int64]]]:
        """The rows of a cache and protocol of every line and layer, by the number of the line, then by layer."""
        for number, rows in sorted(self._lines.get(key, []), key=lambda line: line[0]):
            kept = rows[self.columns.is_text("kind", rows, self._kind)] if self._kind else rows
            layers = self.columns.numbers("layer", kept)
            for layer in np.unique(layers[~np.isnan(layers)]):
                yield number, int(layer), kept[layers == layer]


def risk_panels(risks: ChartRows, key: tuple[str, str]) -> list[dict[str, Any]]:
    """One panel per layer with the curve of every entry."""
    lines: dict[int, list[dict[str, Any]]] = {}
    for number, layer, rows in risks.by_layer(key):
        kept = rows[np.unique(np.linspace(0, len(rows) - 1, min(COVERAGES, len(rows))).round().astype(np.int64))]
        coverage, risk = (risks.columns.numbers(name, kept) for name in ("coverage", "risk"))
        line = {"signal": number, "coverage": steps(coverage / 0.001), "risk": steps(risk / 0.01)}
        lines.setdefault(layer, []).append(line)
    return [{"layer": layer, "lines": lines[layer]} for layer in sorted(lines)]


def score_panels(bins: ChartRows, key: tuple[str, str]) -> list[dict[str, Any]]:
    """One histogram per entry and layer, right and wrong predictions apart."""
    panels = []
    for number, layer, rows in bins.by_layer(key):
        low, high, right, wrong = (bins.columns.numbers(name, rows) for name in ("low", "high", "right", "wrong"))
        panels.append(
            {
                "signal": number,
                "layer": layer,
                "low": edge_text(float(low.min())),
                "high": edge_text(float(high.max())),
                "right": steps(right),
                "wrong": steps(wrong),
            }
        )
    return panels


def edge_text(value: float) -> str:
    """An end of the scores' range, as short as a label must be."""
    return f"{value:.3g}" if math.isfinite(value) else str(value)
