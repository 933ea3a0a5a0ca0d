"""Write the figures and survivors of ``docs/mutation-testing.md`` from a record of ``scripts/mutation.py``.

    python scripts/mutation_page.py ../mutants.jsonl --of 6600 --date '17 November 2026'

Every survivor that stays has its reason in ``scripts/mutation_reasons.json``, under its file, line and change; one
without a reason is listed as not noticed yet. Of several lines of the record about a mutant the last one counts; a
mutant that is read at import counts once a process that imports it has answered.
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("signals", "benchmarks", "exitbench/cache")
PAGE, REASONS = ROOT / "docs/mutation-testing.md", ROOT / "scripts/mutation_reasons.json"
MARK = "## Figures\n"
JUDGED = ("killed", "timeout", "survived")
"""Answers about a mutant; ``at import`` is none yet."""


def change_of(record: Mapping[str, Any]) -> str:
    """A change in one line: what it was, and what it became."""
    before, after = (" ".join(str(record[name]).split()) for name in ("before", "text"))
    if len(before) > 70:
        before, after = shortened(before, after)
    return f"{before} -> {after}"


def key_of(record: Mapping[str, Any]) -> str:
    """How the file of reasons names a mutant."""
    return f"{record['file']}:{record['line']}: {change_of(record)}"


def shortened(before: str, after: str) -> tuple[str, str]:
    """The parts of two long texts in which they differ, with a little around them."""
    start = next((index for index, (old, new) in enumerate(zip(before, after[1:], strict=False)) if old != new), 0)
    left = max(0, start - 20)
    return f"...{before[left : left + 50]}...", f"...{after[left + 1 : left + 51]}..."


def judged(lines: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The last line of every mutant that has an answer."""
    last = {line["key"]: line for line in lines}
    return [line for line in last.values() if line["outcome"] in JUDGED]


def figures(records: Sequence[Mapping[str, Any]], reasons: Mapping[str, str], total: str, date: str) -> str:
    """The part of the page that follows its introduction."""
    noticed = Counter(room_of(record) for record in records if record["outcome"] != "survived")
    answered = Counter(map(room_of, records))
    survivors = sorted(
        (record for record in records if record["outcome"] == "survived"), key=lambda r: (r["file"], r["line"])
    )
    explained = [record for record in survivors if key_of(record) in reasons]
    score = f"{noticed.total()} ({noticed.total() / answered.total():.0%})"
    lines = [
        MARK,
        f"{date}, seed 14: {answered.total()} of {total} mutants, drawn at random, were judged; tests noticed {score}.",
        "",
        "| room | noticed | of |",
        "| --- | --- | --- |",
        *(f"| `{room}` | {noticed[room]} | {answered[room]} |" for room in ROOMS),
        f"| all | {noticed.total()} | {answered.total()} |",
        "",
        "## Survivors",
        "",
        f"{len(explained)} of {len(survivors)} stay for the reason beside them.",
        "",
        "| where | change | why it stays |",
        "| --- | --- | --- |",
    ]
    for record in survivors:
        change = change_of(record)
        reason = reasons.get(key_of(record), "not noticed yet")
        lines.append(f"| `{record['file']}` {record['line']} | `{change.replace('|', '¦')}` | {reason} |")
    return "\n".join(lines) + "\n"


def room_of(record: Mapping[str, Any]) -> str:
    """The room that a mutant's file lies in."""
    return next(room for room in ROOMS if record["file"].startswith(f"{room}/"))


def main() -> None:
    """Rewrite the page, and print the survivors without a reason."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("record", type=Path)
    parser.add_argument("--of", required=True, help="How many mutants there are in all.")
    parser.add_argument("--date", required=True)
    arguments = parser.parse_args()
    lines = map(json.loads, arguments.record.read_text().splitlines())
    records = judged(lines)
    reasons = json.loads(REASONS.read_text())
    introduction = PAGE.read_text().partition(MARK)[0]
    PAGE.write_text(introduction + figures(records, reasons, arguments.of, arguments.date))
    for record in records:
        if record["outcome"] == "survived" and key_of(record) not in reasons:
            print(key_of(record))  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
