"""The text form: what it reads, what it writes, what it refuses, and that the two directions agree."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.errors import InputError
from exitbench.signals import Registry
from exitbench.signals.cap import CAP
from exitbench.signals.contract.signal import frozen, plain
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.e_lang import ELang
from exitbench.signals.f_pabee import FPABEE
from exitbench.signals.pcee import PCEE
from exitbench.signals.random_exit import Random
from exitbench.signals.registry import text_form
from exitbench.signals.right_tool import RightTool


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("cap", ("cap", {})),
        (" cap ", ("cap", {})),
        ("cap[alpha=0.1]", ("cap", {"alpha": ["0.1"]})),
        ("cap[alpha=0.01|0.1|1|10]", ("cap", {"alpha": ["0.01", "0.1", "1", "10"]})),
        ("f-pabee[divergence=kl,patience=2]", ("f-pabee", {"divergence": ["kl"], "patience": ["2"]})),
        ("cap[ alpha = 0.1 | 1 , center = true ]", ("cap", {"alpha": ["0.1", "1"], "center": ["true"]})),
    ],
)
def test_a_text_is_read_as_name_and_values(written: str, expected: object) -> None:
    assert text_form.parse(written) == expected


@pytest.mark.parametrize(
    "written",
    [
        "",
        "[alpha=1]",
        "cap[",
        "cap]",
        "cap[alpha=1",
        "cap alpha=1]",
        "cap[]",
        "cap[alpha]",
        "cap[alpha=]",
        "cap[=1]",
        "cap[alpha=1|]",
        "cap[alpha=1||2]",
        "cap[alpha=1,]",
        "cap[alpha=1][center=true]",
        "cap[[alpha=1]]",
        "cap[alpha=1]x",
        "cap[alpha=1=2]",
    ],
)
def test_a_text_that_is_not_of_the_form_is_refused_with_an_example(written: str) -> None:
    with pytest.raises(InputError, match=r"cannot read .* expected a form such as cap, cap\[alpha=0.1\]"):
        text_form.parse(written)


def test_a_parameter_set_twice_is_refused() -> None:
    with pytest.raises(InputError, match="sets alpha twice; write a grid as"):
        text_form.parse("cap[alpha=1,alpha=2]")


def test_the_text_omits_defaults_and_keeps_the_declared_order() -> None:
    assert CAP().text == "cap"
    assert CAP(alpha=0.1).text == "cap[alpha=0.1]"
    assert CAP(alpha=10.0).text == "cap[alpha=10]"
    assert CAP(center=True, alpha=1e-5).text == "cap[alpha=1e-05,center=true]"
    assert FPABEE(patience=3, divergence="kl").text == "f-pabee[divergence=kl,patience=3]"


def test_the_whole_parameters_text_names_every_parameter() -> None:
    assert CAP().parameters_text == "alpha=1,center=false"
    assert FPABEE().parameters_text == "divergence=jsd,patience=2"
    assert RightTool(temperature="fitted", temperatures=(1.5,)).parameters_text == "temperature=fitted"


def test_a_signal_without_parameters_has_an_empty_parameters_text(registry: Registry) -> None:
    assert registry.make("pabee").parameters_text == ""


@settings(max_examples=60, deadline=None)
@given(st.floats(min_value=0, allow_infinity=False, allow_nan=False), st.booleans())
def test_any_float_comes_back_from_its_text_exactly(alpha: float, center: bool) -> None:
    signal = CAP(alpha=alpha, center=center)
    name, given_values = text_form.parse(signal.text)
    assert name == "cap"
    assert text_form.expand(CAP, given_values) == [signal]


@settings(max_examples=30, deadline=None)
@given(st.integers(min_value=-(2**70), max_value=2**70))
def test_any_whole_number_comes_back_from_its_text(seed: int) -> None:
    assert text_form.expand(Random, text_form.parse(Random(seed=seed).text)[1]) == [Random(seed=seed)]


def test_a_grid_is_every_combination_the_last_parameter_changing_fastest(registry: Registry) -> None:
    made = registry.expand("f-pabee[divergence=kl|jsd,patience=1|2]")
    assert [(signal.divergence, signal.patience) for signal in made if isinstance(signal, FPABEE)] == [
        ("kl", 1),
        ("kl", 2),
        ("jsd", 1),
        ("jsd", 2),
    ]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("cap[alpa=1]", r"no parameter 'alpa'\. Did you mean alpha\? Its parameters: alpha \(a number, at least 0\); "),
        ("pabee[patience=1]", "no parameter 'patience'. Its parameters: none"),
        ("cap[alpha=nan]", "alpha must be a number, at least 0, found 'nan'"),
        ("cap[alpha=inf]", "found 'inf'"),
        ("cap[alpha=1e999]", "found 'inf'"),
        ("cap[alpha=1_0]", "found '1_0'"),
        ("cap[alpha=-1]", "found '-1'"),
        ("cap[alpha=true]", "found 'true'"),
        ("cap[center=1]", "center must be true or false, found '1'"),
        ("cap[center=True]", "found 'True'"),
        ("pcee[patience=0]", "patience must be a whole number, at least 1, found '0'"),
        ("pcee[patience=-2]", "found '-2'"),
        ("pcee[patience=1.5]", "found '1.5'"),
        ("pcee[patience=2.0]", "found '2.0'"),
        ("pcee[patience=two]", r"found 'two'\. Its parameters: patience \(a whole number, at least 1\)"),
        ("e-lang[temperature=0]", "temperature must be a number, above 0, found '0'"),
        ("e-lang[temperature=-1]", "found '-1'"),
        (
            "f-pabee[divergence=jds]",
            "jsd or mean-entropy or kl or reverse-kl or symmetric-kl, found 'jds'. Did you mean jsd",
        ),
        ("cap[alpha=1|1.0]", r"alpha lists the same value twice in '1\|1.0'"),
    ],
)
def test_a_wrong_parameter_is_an_error_that_says_what_is_right(registry: Registry, written: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        registry.expand(written)


def test_a_constructor_refuses_what_the_text_refuses() -> None:
    for wrong in (float("nan"), float("inf"), -1.0, "1", True, None):
        with pytest.raises(InputError, match="alpha must be a number"):
            CAP(alpha=wrong)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="patience must be a whole number"):
        PCEE(patience=2.0)  # type: ignore[arg-type]


def test_a_constructor_takes_numbers_of_other_libraries_and_whole_numbers_for_real_ones() -> None:
    assert CAP(alpha=np.float64(0.1)) == CAP(alpha=0.1)
    assert PCEE(patience=np.int64(3)).text == "pcee[patience=3]"
    assert CAP(alpha=2).text == "cap[alpha=2]"
    assert isinstance(CAP(alpha=2).alpha, float)


def test_minus_zero_is_zero() -> None:
    assert CAP(alpha=-0.0).parameters_text == "alpha=0,center=false"


def test_a_grid_where_one_signal_is_wanted_is_refused(registry: Registry) -> None:
    with pytest.raises(InputError, match="expected one signal, found a grid of 2"):
        registry.make("cap[alpha=1|2]")


@settings(max_examples=40, deadline=None)
@given(st.lists(st.floats(min_value=1e-300, max_value=1e300), min_size=1, max_size=12))
def test_fitted_values_come_back_from_json_exactly(temperatures: list[float]) -> None:
    fitted = RightTool(temperature="fitted", temperatures=tuple(temperatures))
    again = RightTool.from_json(json.loads(json.dumps(fitted.to_json())))
    assert again == fitted
    assert isinstance(again.temperatures, tuple)


def test_json_holds_name_parameters_and_what_was_learned(registry: Registry) -> None:
    stored = RightTool(temperature="fitted", temperatures=(1.5, 0.1)).to_json()
    assert stored == {
        "name": "right-tool",
        "parameters": {"temperature": "fitted"},
        "learned": {"temperatures": [1.5, 0.1]},
    }
    assert registry.from_json(stored) == RightTool(temperature="fitted", temperatures=(1.5, 0.1))
    assert registry.from_json(ELang(center=True).to_json()) == ELang(center=True)


@pytest.mark.parametrize(
    ("stored", "message"),
    [
        ({"name": "cap"}, "expected a stored signal 'deebert', found 'cap'"),
        ({"name": "deebert", "parameters": {"normalise": True}}, "unknown 'normalise'; known: normalize"),
        (
            {"name": "deebert", "learned": {"a\nb\x1b": 1}},
            r"^stored signal deebert: unknown 'a\\nb\\x1b'; known: normalize$",
        ),
        ({"name": "deebert", "parameters": [1]}, "parameters must be a JSON object"),
        ({"name": "deebert", "parameters": {"normalize": 1}}, "normalize must be true or false, found '1'"),
    ],
)
def test_json_of_another_shape_is_refused(stored: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        DeeBERT.from_json(stored)


def test_learned_values_that_json_cannot_hold_are_refused() -> None:
    with pytest.raises(InputError, match="a learned value must be finite numbers"):
        RightTool(temperature="fitted", temperatures=(float("nan"),)).to_json()


def test_learned_mappings_and_nested_lists_are_kept() -> None:
    assert plain("x", {"a": (1, (2.5, None)), "b": "word"}) == {"a": [1, [2.5, None]], "b": "word"}
    assert frozen({"a": [1, [2.5, None]], "b": "word"}) == {"a": (1, (2.5, None)), "b": "word"}
