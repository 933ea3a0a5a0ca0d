"""Write what the conformance checks say of every signal that comes with exitbench, for the reports of runs.

    python scripts/write_conformance.py

A run shows these results beside its signals; ``tests/benchmarks/run/test_conformance_record.py`` asks the checks again.
"""

from __future__ import annotations

import json

from exitbench.benchmarks.run.conformance_record import RECORD, asked, signal_sha256
from exitbench.signals.registry.discovery import load_registry


def main() -> None:
    """Ask every signal of the registry, and write the file."""
    signals = load_registry().signals
    results = {name: {"sha256": signal_sha256(kind), **asked(kind)} for name, kind in sorted(signals.items())}
    RECORD.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
