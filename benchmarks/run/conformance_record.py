"""What the conformance checks say of signals that do not come with exitbench, as ``run.json`` records it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from exitbench.signals.contract.signal import ExitSignal

OWN = "exitbench.signals."
"""Where the signals lie that exitbench's own tests hold to the checks."""


def conformance_record(entries: Sequence[Sequence[ExitSignal]]) -> dict[str, dict[str, Any]]:
    """Checks passed, declared exceptions and failures of every signal from elsewhere, by name; a moment for each."""
    foreign = {signal.name: type(signal) for entry in entries for signal in entry}
    foreign = {name: kind for name, kind in foreign.items() if not kind.__module__.startswith(OWN)}
    if not foreign:
        return {}
    from exitbench.signals.conformance import run_checks  # torch's random layers: only where somebody's file is asked

    record = {}
    for name, kind in foreign.items():
        outcomes = run_checks(kind)
        by_status = {
            status: [outcome for outcome in outcomes if outcome.status == status]
            for status in ("pass", "exception", "fail")
        }
        record[name] = {
            "passed": len(by_status["pass"]),
            "exceptions": [outcome.check for outcome in by_status["exception"]],
            "failures": [f"{outcome.check}: {outcome.detail}" for outcome in by_status["fail"]],
        }
    return record


def failed_checks(record: dict[str, dict[str, Any]]) -> list[str]:
    """A line for every signal that fails a check: its numbers may mean something else than they seem to."""
    return [
        f"{name} fails {len(result['failures'])} of the conformance checks: {'; '.join(result['failures'])}"
        for name, result in record.items()
        if result["failures"]
    ]
