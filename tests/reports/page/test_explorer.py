"""The explorer's data is the exact curve, thinned: each kept point exact, the line never far from the left-out ones."""

from __future__ import annotations

import json
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.reports.page.curve_points import steps, thinned
from exitbench.reports.page.explorer import explorer_data
from exitbench.reports.page.stored_points import RATES
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return main_run(tmp_path_factory)


@pytest.fixture(scope="module")
def data(run_dir: Path) -> dict[str, Any]:
    return explorer_data(FinishedRun(run_dir))


@pytest.fixture(scope="module")
def curves(run_dir: Path) -> pd.DataFrame:
    return pd.read_parquet(run_dir / "curves.parquet")


def undo(coded: list[int | None], unit: float) -> np.ndarray[Any, Any]:
    """The values that a page's script gets back."""
    present = list(accumulate(step for step in coded if step is not None))
    values = iter(present)
    return np.array([np.nan if step is None else next(values) * unit for step in coded])


def exact_curves(data: dict[str, Any]) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    return [(task, curve) for task in data["tasks"] for curve in task["curves"] if "exits" in curve]


def test_every_task_protocol_and_signal_is_there(data: dict[str, Any]) -> None:
    assert [(task["label"], task["protocol"]) for task in data["tasks"]] == [
        (task, protocol)
        for task in ("SST-2 with base", "MRPC with base", "MNLI with tiny")
        for protocol in ("cross-fit", "in-sample")
    ]
    assert [look["label"] for look in data["signals"]][-3:] == ["CAP", "Fixed layer", "Random"]
    assert all(len(task["curves"]) == 10 for task in data["tasks"])


def test_each_kept_point_is_a_stored_point(data: dict[str, Any], curves: pd.DataFrame) -> None:
    task, curve = next((task, curve) for task, curve in exact_curves(data) if curve["signal"] == 6)
    points_of_signal = curves[
        (curves["cache"] == "base-sst2")
        & (curves["protocol"] == "in-sample")
        & (curves["signal"] == "nsp")
        & (curves["kind"] == "point")
    ]
    exits = np.array([undo(layer, 1) for layer in curve["exits"]]).T
    scores = undo(curve["score"], data["units"]["score"])
    rates = np.array([undo(rate, data["units"]["rate"]) for rate in curve["rates"]]).T
    stored = {tuple(row["exits"]): row for _, row in points_of_signal.iterrows()}
    assert len(exits) > 20
    for counts, score, rate in zip(exits, scores, rates, strict=True):
        row = stored[tuple(counts)]
        assert counts.sum() == task["rows"]
        speed = task["layers"] * task["rows"] / (counts * np.arange(1, task["layers"] + 1)).sum()
        assert speed == pytest.approx(row["speed_up"], rel=1e-12)
        assert score == pytest.approx(row["score"], abs=0.00006)
        np.testing.assert_allclose(rate, [row[name] for name in RATES], atol=0.0051)


def test_the_points_that_tables_read_are_kept(data: dict[str, Any], run_dir: Path) -> None:
    results = pd.read_parquet(run_dir / "results.parquet")
    points = results[
        (results["cache"] == "base-sst2")
        & (results["protocol"] == "in-sample")
        & (results["signal"] == "e-lang")
        & results["operating_point"].str.startswith("speed_up=")
        & (results["measure"] == "speed_up")
        & results["threshold"].notna()
    ]
    curve = next(curve for _, curve in exact_curves(data) if curve["signal"] == 5)
    kept = [value for value in curve["thresholds"] if isinstance(value, float)]
    assert len(points) >= 2
    for threshold in points["threshold"]:
        assert min(abs(threshold - value) for value in kept) <= 1e-6 * abs(threshold)


def test_cross_fit_carries_stored_operating_points_instead_of_thresholds(data: dict[str, Any], run_dir: Path) -> None:
    task = next(task for task in data["tasks"] if task["protocol"] == "cross-fit")
    curve = next(curve for curve in task["curves"] if curve["signal"] == 6)
    assert "thresholds" not in curve and "exits" not in curve
    point = next(point for point in curve["stored"] if point["at"] == 2.0)
    assert sum(point["exits"]) == task["rows"]
    results = pd.read_parquet(run_dir / "results.parquet")
    stored = results[
        (results["cache"] == "base-sst2")
        & (results["protocol"] == "cross-fit")
        & (results["signal"] == "nsp")
        & (results["operating_point"] == "speed_up=2")
        & (results["measure"] == "accuracy")
        & (results["decisions"] == "")
    ]["value"].item()
    assert point["score"] == pytest.approx(stored, abs=1e-4)


def test_a_small_budget_gives_a_coarser_curve_not_a_missing_one(data: dict[str, Any], run_dir: Path) -> None:
    small = explorer_data(FinishedRun(run_dir), budget=1)
    assert small["resolution"] < data["resolution"]
    assert [len(task["curves"]) for task in small["tasks"]] == [len(task["curves"]) for task in data["tasks"]]
    assert len(json.dumps(small)) < len(json.dumps(data))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(0, 100), min_size=2, max_size=400), st.integers(0, 2**16))
def test_thinning_keeps_ends_and_named_points(scores: list[float], seed: int) -> None:
    generator = np.random.default_rng(seed)
    cost = np.sort(generator.uniform(0.1, 1.0, len(scores)))[::-1]
    named = generator.random(len(scores)) < 0.02
    kept = thinned(cost, np.array(scores), named, 50)
    assert kept[0] == 0 and kept[-1] == len(scores) - 1
    assert set(np.flatnonzero(named)) <= set(kept)
    assert list(kept) == sorted(set(kept))


def test_the_thinned_line_stays_close_to_the_exact_curve() -> None:
    cost = np.linspace(1.0, 0.1, 1800)
    score = 90 - 30 * (1 - cost) ** 2 + 0.3 * np.sin(60 * cost)
    kept = thinned(cost, score, np.zeros(1800, dtype=bool), 400)
    line = np.interp(-cost, -cost[kept], score[kept])
    assert len(kept) < 600
    assert np.abs(line - score).max() < 0.005 * np.ptp(score)


@given(st.lists(st.one_of(st.none(), st.integers(-10_000, 10_000)), max_size=50))
def test_steps_can_be_undone(values: list[int | None]) -> None:
    column = np.array([np.nan if value is None else float(value) for value in values])
    np.testing.assert_array_equal(undo(steps(column), 1), column)
