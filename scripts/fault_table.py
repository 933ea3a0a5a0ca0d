"""Write the table of ``docs/security.md`` that says what the fault matrix showed, from its record.

    FAULT_RECORD=../faults.jsonl pytest -m slow tests/faults
    python scripts/fault_table.py ../faults.jsonl

A line of the record is a case that held: its test, and verb, fault and what it showed.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs/security.md"
MARK = "| fault | cases | what they showed |\n"
OUTPUT = "output closed, broken or full"
ROWS = {
    **{name: name for name in ("SIGTERM", "SIGINT", "SIGKILL")},
    **{name: name for name in ("SIGTERM while starting", "SIGINT while starting", "SIGKILL while starting")},
    "full disk": "full disk",
    "read-only": "folders that may not be written",
    "few open files": "few open files",
    **dict.fromkeys(("output closed", "output to a broken pipe", "output to a full disk"), OUTPUT),
    "second instance": "a second instance",
}
"""Faults of the record and the rows of the table that they are counted in, in its order."""

WORDS = {
    "stopped; next run: same bytes": "stopped, next run the same bytes",
    "stopped; nothing was written": "stopped before anything was written",
    "stopped; was complete": "stopped when all was complete",
    "refused; next run: same bytes": "refused, next run the same bytes",
    "finished: same bytes": "finished, the same bytes",
    "one finished, one was refused": "one finished and one was refused",
}
"""How the page says what a case showed, where that is not in the record's own words."""


def table(cases: Iterable[str]) -> str:
    """The table for cases such as ``run|SIGTERM|had finished``, with the number of all of them in its last row."""
    counts: dict[str, Counter[str]] = {row: Counter() for row in ROWS.values()}
    for case in cases:
        _, fault, showed = case.split("|")
        counts[ROWS[fault]][WORDS.get(showed, showed)] += 1
    lines = [MARK, "| --- | --- | --- |\n"]
    for row, showed in counts.items():
        answers = "; ".join(f"{answer} {count}" for answer, count in sorted(showed.items(), key=lambda item: -item[1]))
        lines.append(f"| {row} | {showed.total()} | {answers} |\n")
    total = sum(showed.total() for showed in counts.values())
    return "".join([*lines, f"| all | {total} | |\n"])


def main() -> None:
    """Rewrite the end of the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("record", type=Path)
    lines = map(json.loads, parser.parse_args().record.read_text().splitlines())
    cases = dict(lines)  # of a case that was run twice, the last
    PAGE.write_text(PAGE.read_text().partition(MARK)[0] + table(cases.values()))


if __name__ == "__main__":
    main()
