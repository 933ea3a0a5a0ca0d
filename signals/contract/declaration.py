"""Checking what a signal class declares, when it is loaded, with errors that say how to write it right."""

import dataclasses
import typing
from collections.abc import Callable, Mapping, Set
from typing import Any

from exitbench.errors import InputError
from exitbench.exit_rule import PASSES
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import INPUTS, OUTPUT, is_input
from exitbench.signals.contract.parameters import NAME, TYPES, parameters
from exitbench.signals.contract.signal import Continuous, ExitSignal, Integers, Reference

INPUTS_EXPECTED = f"a frozenset of {', '.join(INPUTS)} or {OUTPUT}NAME"


def validate(signal: type[ExitSignal]) -> None:
    """Raise an InputError that names the class and the way out if a declaration is wrong."""
    problem = _class_variables(signal) or _fields(signal) or _methods(signal)
    if problem:
        raise InputError(f"signal class {signal.__name__}: {problem}")
    try:
        default = signal()
    except InputError as error:
        raise InputError(f"signal class {signal.__name__}: a default is not allowed: {error}") from error
    if not _are_inputs(default.inputs):
        raise InputError(f"signal class {signal.__name__}: inputs must be {INPUTS_EXPECTED}, found {default.inputs!r}")


def _class_variables(signal: type[ExitSignal]) -> str:
    """What is wrong with the class variables, or an empty text."""
    declarations: dict[str, tuple[Callable[[Any], bool], str]] = {
        "name": (_is_name, "lower-case words joined by hyphens, such as 'my-signal'"),
        "title": (lambda title: isinstance(title, str) and bool(title.strip()), "the name to print in tables"),
        "reference": (lambda reference: isinstance(reference, Reference), "Reference(paper, year, link)"),
        "exits_when": (lambda direction: direction in PASSES, f"one of {' '.join(PASSES)}"),
        "inputs": (_are_inputs, INPUTS_EXPECTED),
        "thresholds": (
            lambda thresholds: isinstance(thresholds, Continuous | Integers),
            "Continuous() or Integers(low, below_depth)",
        ),
        "exceptions": (_are_reasons, "a mapping from the name of a check to the reason for breaking it"),
        "probability_of": (
            lambda event: event == "" or (event == "right" and ">" in signal.exits_when),
            "empty, or 'right' of a signal that exits above a threshold",
        ),
        "forms": (lambda forms: _are_all(Form, forms), "a tuple of Form(source, parameters, score)"),
        "beyond_the_score": (lambda sentences: _are_all(str, sentences), "a tuple of sentences"),
    }
    for name, (is_right, expected) in declarations.items():
        declared = getattr(signal, name, None)
        if name == "inputs" and isinstance(declared, property):
            continue  # they depend on a parameter: looked at once there is an instance
        if not is_right(declared):
            return f"{name} must be {expected}, found {declared!r}"
    return ""


def _is_name(name: Any) -> bool:
    return isinstance(name, str) and NAME.fullmatch(name) is not None


def _are_inputs(inputs: Any) -> bool:
    return isinstance(inputs, Set) and all(isinstance(name, str) and is_input(name) for name in inputs)


def _are_all(kind: type, items: Any) -> bool:
    return isinstance(items, tuple) and all(isinstance(item, kind) for item in items)


def _are_reasons(exceptions: Any) -> bool:
    return isinstance(exceptions, Mapping) and all(
        isinstance(reason, str) and reason.strip() for reason in exceptions.values()
    )


def _fields(signal: type[ExitSignal]) -> str:
    """What is wrong with the parameters, or an empty text."""
    dataclass_options = vars(signal).get("__dataclass_params__")
    if dataclass_options is None or not dataclass_options.frozen:
        return "put @dataclass(frozen=True) above it, so that its parameters become fields"
    types = typing.get_type_hints(signal)
    for field in dataclasses.fields(signal):
        if field.metadata.get("learned"):
            continue
        annotation = types[field.name]
        if annotation not in TYPES:
            return f"parameter {field.name} must be annotated int, float, bool or str, found {annotation}"
        if field.default is dataclasses.MISSING:
            return f"parameter {field.name} needs a default: write {field.name}: {annotation.__name__} = parameter(...)"
    for parameter in parameters(signal):
        for value in (*parameter.grid, *parameter.choices):
            try:
                parameter.checked(f"signal {signal.name}", value)
            except InputError as error:
                return f"the grid or choices of {parameter.name} hold a value that is not allowed: {error}"
    return ""


def _methods(signal: type[ExitSignal]) -> str:
    """What is missing among the methods, or an empty text."""
    if signal.score is ExitSignal.score and signal.step is ExitSignal.step:
        return "write score(self, layer), or step(self, layer, state) if it remembers earlier layers"
    return ""
