"""What the conformance checks said of a signal, as ``run.json`` records it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ConformanceResult:
    """How many checks a signal passes, which it breaks on purpose, and which it fails, each with its reason."""

    passed: int
    exceptions: tuple[str, ...]
    failures: tuple[str, ...]

    @property
    def asked(self) -> int:
        """How many checks were asked; a declared exception counts as not passed."""
        return self.passed + len(self.exceptions) + len(self.failures)


def conformance_result(record: dict[str, Any]) -> ConformanceResult:
    """The result as recorded."""
    return ConformanceResult(record["passed"], tuple(record["exceptions"]), tuple(record["failures"]))
