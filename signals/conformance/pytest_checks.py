"""The checks as parameters of a pytest function, for the tests of any project that has a signal of its own.

pytest is imported only when :func:`parametrize_with_checks` is called: exitbench does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from exitbench.signals.conformance.checks import CHECKS
from exitbench.signals.conformance.harness import Check, CheckError, Subject
from exitbench.signals.conformance.outcomes import Outcome, misnamed_exceptions, name_of
from exitbench.signals.contract.signal import ExitSignal

if TYPE_CHECKING:
    import pytest


def parametrize_with_checks(signals: Iterable[Subject]) -> pytest.MarkDecorator:
    """A decorator that runs a test function once for each signal (a class or an instance) and check::

        @parametrize_with_checks([MySignal])
        def test_my_signal_conforms(signal, check):
            check(signal)

    A check that the signal declares as an exception is expected to fail, for the reason that it gives (``xfail``); one
    that passes all the same is no failure. A declared exception that names no check fails.
    """
    import pytest

    parameters = []
    for signal in signals:
        title = signal.text if isinstance(signal, ExitSignal) else signal.name
        for check in CHECKS:
            name = name_of(check)
            reason = signal.exceptions.get(name)
            # Never strict, whatever the project's own setting: an exception that is not needed is no failure.
            marks = () if reason is None else (pytest.mark.xfail(raises=CheckError, reason=reason, strict=False),)
            parameters.append(pytest.param(signal, check, marks=marks, id=f"{title}-{name}"))
        parameters.extend(
            pytest.param(signal, _failing(outcome), id=f"{title}-{outcome.check}")
            for outcome in misnamed_exceptions(signal)
        )
    return pytest.mark.parametrize(("signal", "check"), parameters)


def _failing(outcome: Outcome) -> Check:
    """A check that fails as the outcome says."""

    def check(signal: Subject) -> None:
        raise CheckError(f"{signal.name}: exception {outcome.check!r} {outcome.detail}")

    return check
