"""The table of the fault matrix, at the end of a session that ran any of it, and a record by which it goes on.

``FAULT_RECORD=../faults.jsonl pytest -m slow tests/faults`` writes a line for each case that passed; a later session
with the same file leaves these out, and its table holds all of them.
"""

import json
import os
from collections import Counter
from pathlib import Path

import pytest

FAULT = "fault"
"""The property of a test's report that says verb, fault and what it showed."""

cases: dict[str, str] = {}
"""What every case showed that has passed, in this session or by the record."""


def record() -> Path | None:
    """The file that outlives a session."""
    named = os.environ.get("FAULT_RECORD")
    return Path(named) if named else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what has passed by the record."""
    file = record()
    if file is None or not file.exists():
        return
    cases.update(json.loads(line) for line in file.read_text().splitlines())
    config.hook.pytest_deselected(items=[item for item in items if item.nodeid in cases])
    items[:] = [item for item in items if item.nodeid not in cases]


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what a case showed; pytest itself lists those that failed."""
    showed = dict(report.user_properties).get(FAULT)
    if report.when != "call" or not report.passed or showed is None:
        return
    cases[report.nodeid] = str(showed)
    if (file := record()) is not None and "PYTEST_XDIST_WORKER" not in os.environ:
        with file.open("a") as stream:
            stream.write(json.dumps([report.nodeid, showed]) + "\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line per fault and outcome with the number of cases and the verbs that met it."""
    counts: Counter[tuple[str, str]] = Counter()
    verbs: dict[tuple[str, str], set[str]] = {}
    for case in cases.values():
        verb, fault, showed = case.split("|")
        counts[fault, showed] += 1
        verbs.setdefault((fault, showed), set()).add(verb)
    if not counts:
        return
    terminalreporter.section(f"fault matrix: {counts.total()} cases")
    for (fault, showed), count in sorted(counts.items()):
        line = f"{fault:24} {showed:40} {count:4}  {', '.join(sorted(verbs[fault, showed]))}"
        terminalreporter.write_line(line)
