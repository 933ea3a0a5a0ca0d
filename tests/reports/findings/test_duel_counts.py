"""How often the subject is better, worse or not distinguishable: counted by hand, in words and in the table."""

from __future__ import annotations

import math

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.reports.findings.duels import Duel, single, tally, tally_table, tally_text
from exitbench.reports.run_data.run_entry import RunEntry

OTHER = RunEntry("b", "", "B", "b")


def duel(difference: float, p_adjusted: float | None, *, measure: str = "dis", cache: str = "c", sign: int = 1) -> Duel:
    """A duel with this row of differences, none where there is no p-value at all."""
    pair = None if p_adjusted is None else {"difference": difference, "p_adjusted": p_adjusted, "std_err": 1.0}
    return Duel("task", "", OTHER, (cache, "m", "dev", NOWHERE, None, "", measure), pair, sign, 3)


FIRST = [
    duel(2.0, 0.01),
    duel(2.0, 0.05),  # claimed: at most
    duel(-1.0, 0.001),
    duel(2.0, 0.0501),
    duel(-1.0, 0.01, sign=-1),  # the subject comes second in the row
    duel(-3.0, 0.01, measure="premature_rate"),  # less is better
    duel(1.0, None),
    duel(1.0, math.nan),
    duel(5.0, 0.0001, cache=""),  # an average
]
SECOND = [duel(-2.0, 0.01), duel(-2.0, 0.02), duel(1.0, 0.5)]


def test_every_verdict_is_counted_once_and_averages_only_where_they_are_asked_for() -> None:
    alone = single(FIRST)
    assert len(alone) == 8
    assert tally(alone) == {"better": 4, "worse": 1, "not distinguishable": 1, "not compared": 2}
    assert tally(FIRST)["better"] == 5
    assert tally_text(alone) == ("better on 4, worse on 1 and not distinguishable on 1 of 8 (2 could not be compared)")
    assert tally_text(SECOND) == "better on 0, worse on 2 and not distinguishable on 1 of 3"


def test_the_table_counts_each_opponent_by_itself() -> None:
    table = tally_table([("by DIS", [FIRST, SECOND]), ("by score", [SECOND, FIRST])], "A", ["B", "C"])
    shown = [[cell.text for cell in row.cells] for row in table.rows]
    assert shown == [["by DIS", "8", "4", "1", "1", "0", "2", "1"], ["by score", "3", "0", "2", "1", "4", "1", "1"]]
    assert [column.group for column in table.columns[2:]] == ["against B"] * 3 + ["against C"] * 3
