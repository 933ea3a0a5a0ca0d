"""The outcomes of the checks say what failed, and heed what a signal declares as an exception."""

from collections.abc import Mapping
from typing import ClassVar

from torch import Tensor

from exitbench.signals import Layer
from exitbench.signals.conformance import run_checks
from tests.support.broken_signals import Sound, WrongWayRound


def test_a_failure_names_the_setting_and_what_was_expected() -> None:
    (outcome,) = (outcome for outcome in run_checks(WrongWayRound) if outcome.status == "fail")
    assert outcome.detail.startswith("sound: AUROC of certainty 0.1")
    assert outcome.detail.endswith("is exits_when the wrong way round?")


def test_an_error_inside_a_signal_is_a_failure_that_names_it() -> None:
    class Raises(Sound):
        def score(self, layer: Layer) -> Tensor:
            raise ValueError("no idea")

    (outcome,) = (outcome for outcome in run_checks(Raises) if outcome.check == "deterministic")
    assert (outcome.status, outcome.detail) == ("fail", "sound: ValueError: no idea")


def test_a_declared_exception_is_reported_with_its_reason() -> None:
    class Excused(WrongWayRound):
        exceptions: ClassVar[Mapping[str, str]] = {"direction_agrees_with_accuracy": "to show the worst case"}

    outcomes = {outcome.check: outcome for outcome in run_checks(Excused)}
    assert outcomes["direction_agrees_with_accuracy"].status == "exception"
    assert outcomes["direction_agrees_with_accuracy"].detail == "to show the worst case"
    assert {outcome.status for outcome in outcomes.values()} == {"pass", "exception"}


def test_an_exception_that_is_not_needed_is_reported_as_passing() -> None:
    class Modest(Sound):
        exceptions: ClassVar[Mapping[str, str]] = {"deterministic": "rolls dice"}

    outcome = next(outcome for outcome in run_checks(Modest) if outcome.check == "deterministic")
    assert (outcome.status, outcome.detail) == ("pass", "declared as an exception (rolls dice), but it passes")


def test_an_exception_that_names_no_check_is_a_failure() -> None:
    class Mistaken(Sound):
        exceptions: ClassVar[Mapping[str, str]] = {"determinism": "rolls dice"}

    outcome = run_checks(Mistaken)[-1]
    assert (outcome.check, outcome.status) == ("determinism", "fail")
    assert "no check has that name; known: shape_and_dtype, " in outcome.detail
