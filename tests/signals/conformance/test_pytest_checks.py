"""parametrize_with_checks in a project of a user's own, which has a package ``signals`` too."""

import subprocess
import sys
from pathlib import Path

import pytest

from exitbench.signals.conformance import CHECKS, name_of, parametrize_with_checks
from exitbench.signals.f_pabee import FPABEE
from exitbench.signals.random_exit import Random
from tests.support.pytest_runs import run_pytest

pytestmark = pytest.mark.process

SIGNAL = """
from dataclasses import dataclass
from typing import ClassVar

from exitbench import Direction, ExitSignal, Input, Layer, Reference, Tensor


@dataclass(frozen=True)
class Margin(ExitSignal):
    name: ClassVar[str] = "margin"
    title: ClassVar[str] = "Margin"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({"logits"})

    def score(self, layer: Layer) -> Tensor:
        best, second = layer.logits64.topk(2, dim=1).values.unbind(dim=1)
        return best - second


class Backwards(Margin):
    name: ClassVar[str] = "backwards"
    exits_when: ClassVar[Direction] = "<"


class Excused(Backwards):
    name: ClassVar[str] = "excused"
    exceptions: ClassVar[dict[str, str]] = {
        "direction_agrees_with_accuracy": "the worst case on purpose",
        "deterministic": "rolls dice, it thought",
    }


class Misnamed(Margin):
    name: ClassVar[str] = "misnamed"
    exceptions: ClassVar[dict[str, str]] = {"determinism": "rolls dice"}
"""

TEST = """
from exitbench.signals.conformance import parametrize_with_checks
from signals.margin import Backwards, Excused, Margin, Misnamed


@parametrize_with_checks([Margin, Backwards, Excused, Misnamed])
def test_conforms(signal, check):
    check(signal)
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What pytest prints for the project, in which an xfail that passes is a failure unless the mark says otherwise."""
    project = tmp_path_factory.mktemp("project")
    (project / "signals").mkdir()
    (project / "signals/__init__.py").touch()
    (project / "signals/margin.py").write_text(SIGNAL)
    (project / "test_margin.py").write_text(TEST)
    (project / "pytest.ini").write_text("[pytest]\nxfail_strict = true\npythonpath = .\n")
    return run_pytest(project)


def lines(output: str, outcome: str) -> list[str]:
    """The lines of pytest's summary for one outcome, such as ``XFAIL``."""
    return [line for line in output.splitlines() if line.startswith(f"{outcome} ")]


def test_a_sound_signal_passes_every_check_under_a_readable_id(output: str) -> None:
    expected = [f"PASSED test_margin.py::test_conforms[margin-{name_of(check)}]" for check in CHECKS]
    assert [line for line in lines(output, "PASSED") if "[margin-" in line] == expected


def test_a_failure_names_signal_and_check_and_says_what_was_expected(output: str) -> None:
    (failed,) = (line for line in lines(output, "FAILED") if "[backwards-" in line)
    assert failed.startswith("FAILED test_margin.py::test_conforms[backwards-direction_agrees_with_accuracy] - ")
    assert "CheckError: backwards: AUROC of certainty" in output


def test_a_declared_exception_is_an_expected_failure_with_its_reason(output: str) -> None:
    (expected_failure,) = lines(output, "XFAIL")
    assert "[excused-direction_agrees_with_accuracy]" in expected_failure
    assert expected_failure.endswith("the worst case on purpose")


def test_an_exception_that_is_not_needed_is_no_failure(output: str) -> None:
    (unneeded,) = lines(output, "XPASS")
    assert "[excused-deterministic]" in unneeded
    assert "rolls dice, it thought" in unneeded


def test_an_exception_that_names_no_check_fails(output: str) -> None:
    (failed,) = (line for line in lines(output, "FAILED") if "[misnamed-" in line)
    assert "test_conforms[misnamed-determinism]" in failed
    assert "exception 'determinism' declared as an exception, but no check has that name; known: shape_" in output


def test_every_pair_is_counted_once(output: str) -> None:
    outcomes = {name: len(lines(output, name)) for name in ("PASSED", "FAILED", "XFAIL", "XPASS", "ERROR")}
    assert outcomes == {"PASSED": 17 + 16 + 15 + 17, "FAILED": 2, "XFAIL": 1, "XPASS": 1, "ERROR": 0}


def test_an_instance_is_named_by_its_text() -> None:
    mark = parametrize_with_checks([FPABEE(patience=9), Random]).mark
    ids = [parameter.id for parameter in mark.args[1]]
    assert ids[0] == "f-pabee[patience=9]-shape_and_dtype"
    assert ids[len(CHECKS)] == "random-shape_and_dtype"
    assert len(ids) == 2 * len(CHECKS)


def test_the_checks_are_there_without_pytest() -> None:
    program = (
        "import sys; sys.modules['pytest'] = None; import exitbench.signals.conformance as c; print(len(c.CHECKS))"
    )
    shown = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=Path(__file__).parents[3]
    )
    assert shown.stdout == "17\n"
