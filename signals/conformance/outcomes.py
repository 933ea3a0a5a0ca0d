"""The outcomes of the checks for one signal, its declared exceptions taken into account."""

from dataclasses import dataclass
from typing import Literal

from exitbench.signals.conformance.checks import CHECKS
from exitbench.signals.conformance.harness import Check, CheckError, Subject


def name_of(check: Check) -> str:
    """The name under which a check is reported and excused: its function's, without ``check_``."""
    return check.__name__.removeprefix("check_")


@dataclass(frozen=True)
class Outcome:
    """The result of one check: ``pass``, ``exception`` (broken on purpose, with the reason) or ``fail``."""

    check: str
    status: Literal["pass", "exception", "fail"]
    detail: str


def run_check(check: Check, signal: Subject) -> Outcome:
    """The outcome of one check, the signal's declared exceptions taken into account."""
    name = name_of(check)
    reason = signal.exceptions.get(name)
    try:
        check(signal)
    except CheckError as failure:
        return Outcome(name, "fail", str(failure)) if reason is None else Outcome(name, "exception", reason)
    return Outcome(name, "pass", "" if reason is None else f"declared as an exception ({reason}), but it passes")


def run_checks(signal: Subject) -> list[Outcome]:
    """The outcomes of all checks, and a failure for each declared exception that names no check."""
    return [run_check(check, signal) for check in CHECKS] + misnamed_exceptions(signal)


def misnamed_exceptions(signal: Subject) -> list[Outcome]:
    """A failure for each declared exception that names no check."""
    names = [name_of(check) for check in CHECKS]
    return [
        Outcome(name, "fail", f"declared as an exception, but no check has that name; known: {', '.join(names)}")
        for name in signal.exceptions
        if name not in names
    ]
