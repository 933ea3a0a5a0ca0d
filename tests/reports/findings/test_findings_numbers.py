"""The numbers behind the findings: orders, changes, what could be shown, and where each shown number stands."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, norm

from exitbench.benchmarks.results.schema import PAIR_KEY
from exitbench.benchmarks.statistics.multiple_comparisons import holm
from exitbench.benchmarks.statistics.power import claimable
from exitbench.reports.findings.findings import Findings, contestants
from exitbench.reports.findings.paper_order import Order, kendall_tau, rank
from exitbench.reports.run_data.finished_run import FinishedRun
from tests.support.findings_runs import page_of
from tests.support.page_runs import main_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def run_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two models, three tasks: base-sst2, base-mrpc, tiny-mnli."""
    return main_run(tmp_path_factory)


def test_an_order_needs_its_first_alone_and_three_of_four_pairs() -> None:
    paper = {"CAP": 4.0, "a": 3.0, "b": 2.0, "c": 1.0}
    assert Order({"CAP": 9.0, "a": 8.0, "b": 6.0, "c": 7.0}, paper, 1).appears("CAP") == "appears"
    shared = Order({"CAP": 9.0, "a": 9.0, "b": 7.0, "c": 6.0}, paper, 1)
    assert shared.pairs() == (5, 5), "the tied pair is not counted"
    assert shared.appears("CAP") == "appears in part"
    assert Order({"CAP": 8.0, "a": 9.0, "b": 6.0, "c": 7.0}, paper, 1).appears("CAP") == "does not appear"
    assert Order({"CAP": 9.0}, paper, 1).appears("CAP") == "cannot be looked for"
    assert Order({"a": 9.0, "b": 8.0}, paper, 1).appears("CAP") == "cannot be looked for"


def test_kendalls_tau_is_that_of_counted_pairs() -> None:
    random = np.random.default_rng(0)
    names = [f"s{number}" for number in range(7)]
    for _ in range(20):
        order = Order(
            dict(zip(names, random.permutation(7) * 1.0, strict=True)),
            dict(zip(names, random.permutation(7) * 1.0, strict=True)),
            1,
        )
        same, total = order.pairs()
        assert total == 21
        assert order.tau() == pytest.approx((same - (total - same)) / total)
    assert math.isnan(Order({"a": 1.0}, {"a": 1.0}, 1).tau())


def test_kendalls_tau_with_ties_is_scipys() -> None:
    random = np.random.default_rng(1)
    for size in (2, 3, 5, 9):
        for _ in range(10):
            first, second = random.integers(0, 4, (2, size)).astype(float).tolist()
            assert kendall_tau(first, second) == pytest.approx(float(kendalltau(first, second).statistic), nan_ok=True)


def test_equal_values_share_a_rank() -> None:
    assert rank({"a": 1.0, "b": 1.0 + 1e-12, "c": 0.5}, "a") == (1, True)
    assert rank({"a": 1.0, "b": 2.0, "c": 0.5}, "c") == (3, False)


def test_the_change_between_protocols_is_the_mean_and_the_largest_difference(run_dir: Path) -> None:
    results = pd.read_parquet(run_dir / "results.parquet")
    nsp = results[
        (results["signal"] == "nsp") & (results["operating_point"] == "speed_up=2") & (results["cache"] != "")
    ]
    score_measures = {"base-sst2": "accuracy", "base-mrpc": "f1", "tiny-mnli": "accuracy"}
    nsp = nsp[(nsp["measure"] == nsp["cache"].map(score_measures)) & (nsp["decisions"] == "") & (nsp["status"] == "ok")]
    wide = nsp.pivot(index="cache", columns="protocol", values="value").dropna()
    change = wide["cross-fit"] - wide["in-sample"]
    line = next(line for line in page_of(FinishedRun(run_dir)).splitlines() if re.match(r"\| NSP \| \d+ \|", line))
    cells = [cell.strip().replace("\\", "") for cell in line.strip("|").split("|")]
    assert int(cells[1]) == len(change)
    assert float(cells[2]) == pytest.approx(change.mean(), abs=0.0051)
    assert float(cells[3]) == pytest.approx(change[change.abs().idxmax()], abs=0.0051)


def test_the_difference_that_could_be_shown_is_claimed_four_times_in_five() -> None:
    random, tests, std_err = np.random.default_rng(1), 6, 0.7
    shift = claimable(std_err, tests)
    draws = random.normal(size=(4000, tests)) * std_err
    draws[:, 0] += shift
    claimed = [holm(2 * norm.sf(np.abs(row) / std_err))[0] < 0.05 for row in draws]
    assert np.mean(claimed) == pytest.approx(0.8, abs=0.02)
    assert math.isnan(claimable(0.0, tests))
    assert math.isnan(claimable(math.nan, tests))


def test_every_number_with_a_source_is_that_of_its_row(run_dir: Path) -> None:
    run = FinishedRun(run_dir)
    contest = contestants(run)
    assert contest is not None
    pairs = {tuple(pair[name] for name in PAIR_KEY): pair for pair in run.pair_rows}
    seen = {"results": 0, "pairs": 0}
    for section in Findings(run, *contest).sections(()):
        for table in section.tables:
            for number in table.numbers():
                seen[number.source] += 1
                if number.source == "results":
                    row = run.rows[number.key]
                    assert (number.value, number.low, number.high) == (row.value, row.low, row.high)
                    continue
                pair = pairs[number.key]
                names = number.key[PAIR_KEY.index("signal_a")], number.key[PAIR_KEY.index("signal_b")]
                assert "cap" in names
                sign = 1 if names[0] == "cap" or number.column != "difference" else -1
                assert number.value == sign * pair[number.column]
                if number.column == "difference":
                    assert (number.low, number.high) == tuple(sorted((sign * pair["low"], sign * pair["high"])))
    spreads = 3 + 3 * 2  # a score per cache, DIS at two layers of each
    # Scores with the average at two speed-ups, DIS, both rates at equal shares and near 4x, which four layers lack.
    duels = (3 + 1) * 2 + 3 * 2 + 3 * 2 + 2 * 2
    assert seen == {"results": spreads * 3, "pairs": duels * 2 * 2}, "energy and two alphas; two opponents, value and p"
