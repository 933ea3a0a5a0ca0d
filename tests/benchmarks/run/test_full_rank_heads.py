"""A head of full rank in a run: the layer is undefined with the rank, nothing exits there, and the run says so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.run.run_suite import RunOutcome, run_suite
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cache import synthetic_cache

FULL = "the head has full rank, its null space is empty (rank 4 of 4)"
NEAR = "the head has nearly full rank (10 of 11): its null space has 1 dimension"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunOutcome:
    folder = tmp_path_factory.mktemp("full-rank")
    cache = synthetic_cache(folder / "narrow", rows=200, layers=4, classes=10, widths=[4, 11, 16, 16])
    questions = Questions(
        layers=(1, 2, 3), speed_ups=(1.5,), primary_speed_up=1.5, protocols=("in-sample",), resamples=20, losses=()
    )
    suite = Suite("narrow", (cache,), ("nsp", "cap", "e-lang"), questions)
    return run_suite(suite, folder / "out")


def test_the_layer_is_undefined_with_the_rank(run: RunOutcome) -> None:
    results = run.files.results
    dis = {(row.signal, row.layer): row for row in results[results.measure == "dis"].itertuples()}
    for signal in ("nsp", "cap"):
        assert dis[signal, 1].status == "undefined" and np.isnan(dis[signal, 1].value)
        assert FULL in dis[signal, 1].reason
        assert dis[signal, 2].status == "ok" and NEAR in dis[signal, 2].reason
        assert dis[signal, 3].reason == ""
    assert dis["e-lang", 1].status == "ok"


def test_nothing_exits_there(run: RunOutcome) -> None:
    samples = run.files.table("samples")
    exits = samples.groupby("signal")["exit_layer"].min()
    assert exits["e-lang"] == 1
    assert exits["nsp"] == exits["cap"] == 2


def test_the_run_says_so(run: RunOutcome) -> None:
    for line in (f"signal nsp on cache narrow, layer 1: {FULL}", f"signal cap on cache narrow, layer 2: {NEAR}"):
        assert line in run.left_out and line in run.files.record["notes"]
    assert len(run.left_out) == 4


@pytest.mark.long
def test_rates_at_equal_shares_are_undefined_where_no_layer_has_a_score(tmp_path: Path) -> None:
    cache = synthetic_cache(tmp_path / "full", rows=120, layers=3, classes=5, width=5)
    questions = Questions(
        layers=(1, 2), speed_ups=(1.5,), primary_speed_up=1.5, protocols=("in-sample",), resamples=20, losses=()
    )
    suite = Suite("full", (cache,), ("nsp", "e-lang"), questions)
    results = run_suite(suite, tmp_path / "out").files.results
    rates = results[(results.decisions == "equal-share") & results.layer.isna() & (results.signal == "nsp")]
    assert list(rates.status) == ["undefined", "undefined"]
    assert set(rates.reason) == {"the signal has no score at any layer"}
