"""What the conformance checks say of a run's signals, as ``run.json`` records it.

Signals that come with exitbench are not asked again in every run: :data:`RECORD` has what their checks said, with the
sha256 of each signal's file; a test asks them. A file that is no longer the one recorded is asked like anybody's.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import exitbench.signals
from exitbench.signals.contract.signal import ExitSignal

OWN = "exitbench.signals."
"""Where the signals lie that come with exitbench."""
RECORD = Path(exitbench.signals.__file__).parent / "conformance" / "own_signals.json"
"""Written by ``scripts/write_conformance.py``: signal to sha256 of its file, checks passed, exceptions and failures."""
Result = dict[str, Any]


def conformance_record(entries: Sequence[Sequence[ExitSignal]]) -> dict[str, Result]:
    """Checks passed, declared exceptions and failures of every signal of a run, by name; a moment for each asked."""
    kinds = {signal.name: type(signal) for entry in entries for signal in entry}
    recorded = json.loads(RECORD.read_text(encoding="utf-8"))
    return {name: recorded_result(kind, recorded.get(name)) or asked(kind) for name, kind in kinds.items()}


def recorded_result(kind: type[ExitSignal], recorded: Result | None) -> Result | None:
    """What was recorded of a signal that comes with exitbench; ``None`` where its file is another one now."""
    if recorded is None or not kind.__module__.startswith(OWN) or recorded["sha256"] != signal_sha256(kind):
        return None
    return {name: recorded[name] for name in ("passed", "exceptions", "failures")}


def signal_sha256(kind: type[ExitSignal]) -> str:
    """The sha256 of the file that a signal's class is written in; empty where there is no such file."""
    file = getattr(sys.modules.get(kind.__module__), "__file__", None)
    return hashlib.sha256(Path(file).read_bytes()).hexdigest() if file and Path(file).is_file() else ""


def asked(kind: type[ExitSignal]) -> Result:
    """What the checks say of a signal now."""
    from exitbench.signals.conformance import run_checks  # torch's random layers: only where somebody's file is asked

    by_status: dict[str, list[Any]] = {"pass": [], "exception": [], "fail": []}
    for outcome in run_checks(kind):
        by_status[outcome.status].append(outcome)
    return {
        "passed": len(by_status["pass"]),
        "exceptions": [outcome.check for outcome in by_status["exception"]],
        "failures": [f"{outcome.check}: {outcome.detail}" for outcome in by_status["fail"]],
    }


def failed_checks(record: dict[str, Result]) -> list[str]:
    """A line for every signal that fails a check: its numbers may mean something else than they seem to."""
    return [
        f"{name} fails {len(result['failures'])} of the conformance checks: {'; '.join(result['failures'])}"
        for name, result in record.items()
        if result["failures"]
    ]
