"""The pages that say what the fault matrix and mutation testing showed: every case and every answer is counted once."""

from tests.support.scripts import script


def test_every_case_of_the_matrix_is_in_one_row_of_the_table() -> None:
    from tests.support.fault_cases import FAULTS

    cases = [f"run|{fault}|had finished" for fault in FAULTS] + ["train|SIGTERM|stopped; nothing was written"] * 2
    lines = script("fault_table").table(cases).splitlines()
    rows = {cells[1].strip(): cells[2:4] for cells in (line.split("|") for line in lines[2:])}
    assert rows["SIGTERM"] == [" 3 ", " stopped before anything was written 2; had finished 1 "]
    assert rows["output closed, broken or full"] == [" 3 ", " had finished 3 "]
    assert sum(int(count) for row, (count, _) in rows.items() if row != "all") == len(cases) == int(rows["all"][0])


def test_a_mutant_that_nobody_has_answered_for_is_neither_noticed_nor_judged() -> None:
    page = script("mutation_page")
    mutant = {"file": "signals/nsp.py", "line": 3, "before": "1", "text": "(2)"}
    outcomes = [("a", "at import"), ("b", "at import"), ("c", "survived"), ("d", "killed"), ("b", "killed")]
    records = page.judged([mutant | {"key": key, "outcome": outcome} for key, outcome in outcomes])
    assert [record["key"] for record in records] == ["b", "c", "d"]
    text = page.figures(records, {"signals/nsp.py:3: 1 -> (2)": "The same program."}, "900", "today")
    assert "3 of 900 mutants, drawn at random, were judged; tests noticed 2 (67%)" in text
    assert "| `signals` | 2 | 3 |" in text
    assert "1 of 1 stay for the reason beside them." in text
    assert "| `signals/nsp.py` 3 | `1 -> (2)` | The same program. |" in text
