"""Tables of paired differences and of wins."""

import itertools
import math

import pandas as pd
import pytest

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.statistics.multiple_comparisons import column_marks
from exitbench.reports.findings.duels import Duel
from exitbench.reports.run_data.finished_run import FinishedRun, RunEntry
from exitbench.reports.tables.cells import pair_cell
from exitbench.reports.tables.pairs import wins_cell, wins_cells
from exitbench.reports.tables.table import Table
from tests.support.shown_numbers import short_name


class CountedPair(dict[str, object]):
    """A row of the pairs that counts how often it is looked at."""

    looks = 0

    def __getitem__(self, key: str) -> object:
        CountedPair.looks += 1
        return super().__getitem__(key)


def test_wins_look_at_every_pair_a_few_times_however_many_signals_there_are() -> None:
    names = [(f"signal-{number}", "") for number in range(40)]
    pairs = [
        CountedPair(
            signal_a=a, parameters_a="", signal_b=b, parameters_b="", measure="dis", p_adjusted=0.01, difference=1.0
        )
        for (a, _), (b, _) in itertools.combinations(names, 2)
    ]
    CountedPair.looks = 0
    cells = wins_cells(names, pairs)
    assert cells[0][1].text == "1 : 0"
    assert cells[1][0].text == "0 : 1"
    assert cells[3][3].text == "·"
    assert CountedPair.looks <= 20 * len(pairs)


@pytest.mark.parametrize(("p_adjusted", "claimed"), [(0.05, True), (math.nextafter(0.05, 1), False), (math.nan, False)])
def test_tables_claim_at_exactly_the_adjusted_p_value_at_which_marks_do(p_adjusted: float, claimed: bool) -> None:
    names = {"signal_a": "a", "parameters_a": "", "signal_b": "b", "parameters_b": "", "measure": "dis"}
    numbers = {"difference": 1.0, "low": 0.0, "high": 2.0, "p_value": p_adjusted, "p_adjusted": p_adjusted, "n": 9}
    pair = {**names, **numbers, "status": "ok", "reason": ""}
    assert wins_cell([pair], ("a", ""), ("b", "")).text == ("1 : 0" if claimed else "0 : 0")
    assert pair_cell(pair, (), 1).best == claimed
    question = ("sst2", "base", "dev", NOWHERE, 2, "", "dis")
    duel = Duel("SST-2", "layer 2", RunEntry("b", "", "B", "b"), question, pair)
    assert (duel.verdict == "better") == claimed
    marks = column_marks([5.0, 4.0], {(0, 1): p_adjusted})
    assert (not marks.tied_with_best[1]) == (claimed or math.isnan(p_adjusted))


def test_wins_count_claimed_differences(run: FinishedRun, tables: list[Table]) -> None:
    table = next(table for table in tables if table.name == "wins-dis-base-in-sample")
    pairs = pd.read_parquet(run.path / "pairs.parquet")
    pairs_by_dis = pairs[(pairs["model"] == "base") & (pairs["protocol"] == "in-sample") & (pairs["measure"] == "dis")]
    pairs_by_dis = pairs_by_dis[pairs_by_dis["layer"].isin([1, 2]) & (pairs_by_dis["task"] != "average")]
    labels = [column.title for column in table.columns[1:]]
    for row in table.rows:
        for title, cell in zip(labels, row.cells[1:], strict=True):
            if cell.status != "ok":
                continue
            better = worse = 0
            for pair in pairs_by_dis.itertuples():
                a, b = run.label(pair.signal_a, pair.parameters_a), run.label(pair.signal_b, pair.parameters_b)
                if {a, b} == {row.cells[0].text, title} and pair.p_adjusted < 0.05:
                    ahead = (pair.difference > 0) == (a == row.cells[0].text)
                    better, worse = better + ahead, worse + (not ahead)
            assert cell.text == f"{better} : {worse}"


def test_differences_change_sign_with_their_order(tables: list[Table]) -> None:
    table = short_name(tables, "differences-base-sst2")
    size = len(table.rows)
    values = [[cell.value for cell in row.cells[1:]] for row in table.rows]
    for i in range(size):
        for j in range(size):
            if i != j:
                assert values[i][j] == -values[j][i]
