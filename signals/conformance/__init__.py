"""The conformance checks that every signal passes, and the layers they are run on."""

from exitbench.signals.conformance.checks import CHECKS
from exitbench.signals.conformance.harness import Check, CheckError, Subject
from exitbench.signals.conformance.outcomes import Outcome, name_of, run_check, run_checks
from exitbench.signals.conformance.pytest_checks import parametrize_with_checks
from exitbench.signals.conformance.synthetic_layers import SyntheticLayers, synthetic_layers

__all__ = [
    "CHECKS",
    "Check",
    "CheckError",
    "Outcome",
    "Subject",
    "SyntheticLayers",
    "name_of",
    "parametrize_with_checks",
    "run_check",
    "run_checks",
    "synthetic_layers",
]
