"""Every signal passes every check, and every check catches a signal that is broken in just its way."""

import pytest
import torch

from exitbench.signals import ExitSignal, LearnedSignal, load_registry
from exitbench.signals.conformance import (
    CHECKS,
    Check,
    CheckError,
    name_of,
    parametrize_with_checks,
    run_check,
    run_checks,
    synthetic_layers,
)
from exitbench.signals.conformance.harness import points, same
from exitbench.signals.f_pabee import FPABEE
from exitbench.signals.right_tool import RightTool
from tests.support.broken_signals import (
    CAUGHT,
    ByPosition,
    ClaimsInvariance,
    CountsFeatureBits,
    Doubles,
    Float32,
    Sound,
    WrongWayRound,
)

SIGNALS = load_registry().signals
LEARNED = [signal for signal in SIGNALS.values() if issubclass(signal, LearnedSignal)]


@parametrize_with_checks([signal for signal in SIGNALS.values() if signal not in LEARNED])
def test_every_signal_conforms(signal: type[ExitSignal], check: Check) -> None:
    check(signal)


@pytest.mark.long
@parametrize_with_checks(LEARNED)
def test_every_signal_that_learns_conforms(signal: type[ExitSignal], check: Check) -> None:
    check(signal)


def test_only_random_what_compares_bases_counts_neighbours_or_weighs_rewards_needs_an_exception() -> None:
    excepted = {"random", "saturation", "knn-agreement", "consistentee"}
    assert {name for name, signal in SIGNALS.items() if signal.exceptions} == excepted
    (check,) = (check for check in CHECKS if name_of(check) == "direction_agrees_with_accuracy")
    outcome = run_check(check, SIGNALS["random"])
    assert (outcome.status, outcome.detail) == ("exception", "a baseline that knows nothing about the sample")


@pytest.mark.long
def test_a_signal_that_no_shift_moves_says_so() -> None:
    (check,) = (check for check in CHECKS if name_of(check) == "shift_invariance_where_claimed")
    plain = {name: signal for name, signal in SIGNALS.items() if isinstance(signal.shift_invariant, bool)}
    assert len(plain) > 20, "for the others it depends on a parameter"
    for name, signal in plain.items():
        claiming = type(signal.__name__, (signal,), {"shift_invariant": True})
        assert signal.shift_invariant == (run_check(check, claiming).status == "pass"), name


def test_the_sound_signal_passes_everything() -> None:
    assert [outcome for outcome in run_checks(Sound) if outcome.status != "pass"] == []


def test_every_check_has_a_broken_signal_that_it_catches() -> None:
    assert [name_of(check) for check in CHECKS] == list(CAUGHT)


@pytest.mark.parametrize(
    ("name", "broken"),
    [(name, broken) for name, several in CAUGHT.items() for broken in several],
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_broken_signal_is_caught(name: str, broken: type[ExitSignal]) -> None:
    (check,) = (check for check in CHECKS if name_of(check) == name)
    with pytest.raises(CheckError, match="sound"):
        check(broken)


@pytest.mark.long
@pytest.mark.parametrize("broken", [Float32, ByPosition, WrongWayRound, ClaimsInvariance, CountsFeatureBits, Doubles])
def test_a_signal_broken_in_one_way_fails_one_check(broken: type[ExitSignal]) -> None:
    """The checks are one property each: a fault is not reported all over the table."""
    (name,) = (name for name, several in CAUGHT.items() if broken in several)
    failed = {outcome.check for outcome in run_checks(broken) if outcome.status == "fail"}
    # A position is both an order and a company, and 16-bit noise is neither.
    assert failed - {"alone_as_in_company", "dropping_samples_changes_nothing"} == {name}


def test_a_class_is_checked_at_its_defaults_and_at_every_value_of_its_grids_and_choices() -> None:
    assert [point.text for point in points(FPABEE)] == [
        "f-pabee",
        *(f"f-pabee[divergence={kind}]" for kind in ("mean-entropy", "kl", "reverse-kl", "symmetric-kl")),
        *(f"f-pabee[patience={t}]" for t in (1, 3, 4, 5, 6)),
    ]
    assert [point.text for point in points(RightTool)] == ["right-tool", "right-tool[temperature=fitted]"]
    assert [point.text for point in points(FPABEE(patience=9))] == ["f-pabee[patience=9]"]


def test_an_instance_beyond_the_grid_can_be_checked_too() -> None:
    assert {outcome.status for outcome in run_checks(FPABEE(divergence="kl", patience=9))} == {"pass"}


def test_comparing_scores_sees_a_difference_in_one_value_and_in_shape() -> None:
    scores = [torch.tensor([1.0, torch.nan])]
    assert same(scores, [torch.tensor([1.0, torch.nan])], exactly=True)
    assert not same(scores, [torch.tensor([1.0, 2.0])])
    assert not same(scores, [torch.tensor([1.0])])
    assert not same(scores, [torch.tensor([1.0 + 1e-6, torch.nan])])


def test_the_synthetic_layers_are_easy_consistent_and_fresh_each_time() -> None:
    data = synthetic_layers(400, seed=1)
    accuracy = [float((layer.prediction == data.labels).double().mean()) for layer in data.layers]
    assert accuracy[-1] > accuracy[0] > 1 / 3
    layer = data.layers[3]
    assert layer.head is not None
    assert layer.features is not None
    expected = layer.features.double() @ layer.head.weight.T + layer.head.bias
    torch.testing.assert_close(layer.logits, expected.float())
    again = synthetic_layers(400, seed=1).layers[3]
    assert torch.equal(again.logits, layer.logits)
    assert again.logits.data_ptr() != layer.logits.data_ptr()
