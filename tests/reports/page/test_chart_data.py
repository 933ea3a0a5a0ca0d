"""What a task's charts are drawn from is what the result files hold, under the leading protocol."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import pandas as pd
import pytest

from exitbench.reports.page.chart_data import COVERAGES, chart_data
from exitbench.reports.page.explorer import lines_of
from exitbench.reports.page.page_room import PAGE_BYTES, PageRoom
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(main_run(tmp_path_factory))


@pytest.fixture(scope="module")
def charts(run: FinishedRun) -> dict[str, dict[str, Any]]:
    return chart_data(run, PageRoom(PAGE_BYTES))


def of_layer(run: FinishedRun, file: str, cache: str, number: int, layer: int) -> pd.DataFrame:
    """The rows of one line and layer, in the order of the file."""
    frame = pd.read_parquet(run.path / f"{file}.parquet")
    signal, parameters = lines_of(run)[number]
    protocol = run.leading_protocol([next(metadata for metadata in run.caches if metadata.name == cache)])
    wanted = {"cache": cache, "protocol": protocol, "signal": signal, "parameters": parameters, "layer": layer}
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return frame


def test_risk_curves_are_those_of_the_file_thinned_evenly(run: FinishedRun, charts: dict[str, dict[str, Any]]) -> None:
    seen = 0
    for cache, chart in charts.items():
        layers = [panel["layer"] for panel in chart["risk"]]
        assert layers == sorted(layers)
        for panel in chart["risk"]:
            for line in panel["lines"]:
                rows = of_layer(run, "risk_coverage", cache, line["signal"], panel["layer"])
                drawn = dict(zip(accumulate(line["coverage"]), accumulate(line["risk"]), strict=True))
                stored = dict(
                    zip((rows["coverage"] * 1000).round().astype(int).tolist(), rows["risk"].tolist(), strict=True)
                )
                assert len(drawn) == min(COVERAGES, len(rows))
                assert all(abs(stored[coverage] - risk / 100) <= 0.00501 for coverage, risk in drawn.items())
                seen += 1
    assert seen > 10


def test_histograms_have_the_counts_of_the_file(run: FinishedRun, charts: dict[str, dict[str, Any]]) -> None:
    kept = pd.read_parquet(run.path / "histograms.parquet")
    leading = {cache.name: run.leading_protocol([cache]) for cache in run.caches}
    scores = kept[(kept["kind"] == "scores") & (kept["protocol"] == kept["cache"].map(leading))]
    assert sum(len(chart["scores"]) for chart in charts.values()) == len(
        scores.groupby(["cache", "signal", "parameters", "layer"])
    )
    for cache, chart in charts.items():
        order = [(panel["signal"], panel["layer"]) for panel in chart["scores"]]
        assert order == sorted(order)
        for panel in chart["scores"]:
            rows = of_layer(run, "histograms", cache, panel["signal"], panel["layer"])
            rows = rows[rows["kind"] == "scores"]
            for kind in ("right", "wrong"):
                assert list(accumulate(panel[kind])) == rows[kind].astype(int).tolist()
            assert (panel["low"], panel["high"]) == (f"{rows['low'].min():.3g}", f"{rows['high'].max():.3g}")
