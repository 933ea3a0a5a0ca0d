"""The table of the fault matrix, at the end of a session that ran any of it."""

from collections import Counter
from typing import Any

import pytest


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """A line per fault and outcome with the number of cases; failures are listed by pytest itself."""
    cases: Counter[tuple[str, str]] = Counter()
    verbs: dict[tuple[str, str], set[str]] = {}
    reports: list[Any] = terminalreporter.stats.get("passed", [])
    for report in reports:
        for name, value in report.user_properties:
            if name == "fault":
                verb, fault, showed = value.split("|")
                cases[fault, showed] += 1
                verbs.setdefault((fault, showed), set()).add(verb)
    if not cases:
        return
    terminalreporter.section(f"fault matrix: {cases.total()} cases")
    for (fault, showed), count in sorted(cases.items()):
        line = f"{fault:24} {showed:40} {count:4}  {', '.join(sorted(verbs[fault, showed]))}"
        terminalreporter.write_line(line)
