"""The one text form of a signal, its parameters as values, and its JSON form.

``cap`` is a signal at its defaults, ``cap[alpha=0.1]`` sets a parameter, ``f-pabee[divergence=kl,patience=2]``
sets two, and ``cap[alpha=0.01|0.1|1|10]`` is a grid: one signal for each combination. The same text serves
the command line, suites and result tables, and goes both ways: ``make(text).text == text`` for a text in
its shortest form.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import numbers
import re
import typing
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from exitbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from signals.contract import ExitSignal

    S = TypeVar("S", bound=ExitSignal)

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
NO_BRACKETS = re.compile(r"[^\[\],|=\s]+")
WORD = re.compile(r"[A-Za-z0-9_.+:-]+")
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TYPES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}
SHAPE = "expected a form such as cap, cap[alpha=0.1] or cap[alpha=0.1|1,center=true]"


@dataclass(frozen=True)
class Parameter:
    """One parameter of a signal class, read off its dataclass field."""

    name: str
    type: type
    default: Any
    grid: tuple[Any, ...]
    choices: tuple[Any, ...]
    at_least: float | None
    above: float | None
    help: str

    @property
    def allowed(self) -> str:
        """What values it takes, in words.

        >>> Parameter("patience", int, 2, (), (), 1, None, "").allowed
        'a whole number, at least 1'
        """
        if self.choices:
            return " or ".join(value_text(choice) for choice in self.choices)
        bound = f", at least {self.at_least:g}" if self.at_least is not None else ""
        bound += f", above {self.above:g}" if self.above is not None else ""
        return TYPES[self.type] + bound

    def read(self, signal: str, written: str) -> Any:
        """The value that ``written`` stands for; an InputError where it is ill-typed or not allowed."""
        value: Any = written
        if self.type is bool:
            value = {"true": True, "false": False}.get(written, written)
        elif self.type is int and INTEGER.fullmatch(written):
            value = int(written)
        elif self.type is float and DECIMAL.fullmatch(written):
            value = float(written)
        return self.checked(signal, value)

    def checked(self, signal: str, value: Any) -> Any:
        """``value`` as the declared type, or an InputError that says what is allowed."""
        typed = self._typed(value)
        if typed is None or not self._within(typed):
            found = value_text(value) if isinstance(value, bool | int | float | str) else repr(value)
            near = did_you_mean(found, (value_text(choice) for choice in self.choices))
            raise InputError(f"signal {signal}: {self.name} must be {self.allowed}, found {found!r}.{near}")
        return typed

    def _typed(self, value: Any) -> Any:
        """``value`` converted where that loses nothing, ``None`` where it is of another type."""
        if self.type is str:
            return value if isinstance(value, str) and WORD.fullmatch(value) else None
        if self.type is bool or isinstance(value, bool):
            return value if self.type is bool and isinstance(value, bool) else None
        if self.type is int:
            return int(value) if isinstance(value, numbers.Integral) else None
        if not isinstance(value, numbers.Real) or not math.isfinite(value):
            return None
        return float(value) + 0.0  # turns -0.0 into 0.0: one value, one text

    def _within(self, value: Any) -> bool:
        return (
            (not self.choices or value in self.choices)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
        )


_known_parameters: WeakKeyDictionary[type, tuple[Parameter, ...]] = WeakKeyDictionary()
"""A run asks hundreds of times for the same classes, and reading annotations is slow."""


def parameters(signal: type[ExitSignal]) -> tuple[Parameter, ...]:
    """The parameters of a signal class, in the order they are written; learned values are none of them."""
    if signal not in _known_parameters:
        _known_parameters[signal] = _read_parameters(signal)
    return _known_parameters[signal]


def _read_parameters(signal: type[ExitSignal]) -> tuple[Parameter, ...]:
    types = typing.get_type_hints(signal)
    return tuple(
        Parameter(
            name=field.name,
            type=types[field.name],
            default=field.default,
            grid=field.metadata.get("grid", ()),
            choices=field.metadata.get("choices", ()),
            at_least=field.metadata.get("at_least"),
            above=field.metadata.get("above"),
            help=field.metadata.get("help", ""),
        )
        for field in dataclasses.fields(signal)
        if not field.metadata.get("learned")
    )


def learned_fields(signal: type[ExitSignal]) -> tuple[str, ...]:
    """The names of what a signal class learns in ``fit``."""
    return tuple(field.name for field in dataclasses.fields(signal) if field.metadata.get("learned"))


def value_text(value: bool | float | str) -> str:
    """A value as it is written in a signal's text.

    >>> value_text(1.0), value_text(0.1), value_text(True), value_text("jsd")
    ('1', '0.1', 'true', 'jsd')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    written = str(value)
    return written.removesuffix(".0") if isinstance(value, float) else written


def parse(written: str) -> tuple[str, dict[str, list[str]]]:
    """A signal's text as its name and, for each parameter named, the values given, still as text.

    >>> parse("cap[alpha=0.1|1,center=true]")
    ('cap', {'alpha': ['0.1', '1'], 'center': ['true']})
    """
    name, bracket, rest = written.strip().partition("[")
    name = name.strip()
    if not NO_BRACKETS.fullmatch(name) or (bracket and not rest.endswith("]")) or "[" in rest or "]" in rest[:-1]:
        raise InputError(f"cannot read the signal {written!r}: {SHAPE}")
    if not bracket:
        return name, {}
    given: dict[str, list[str]] = {}
    for part in rest[:-1].split(","):
        key, equals, values = (piece.strip() for piece in part.partition("="))
        listed = [value.strip() for value in values.split("|")]
        if not equals or not key or not all(listed) or "=" in values:
            raise InputError(f"cannot read {part.strip()!r} in the signal {written!r}: {SHAPE}")
        if key in given:
            raise InputError(f"the signal {written!r} sets {key} twice; write a grid as {key}=A|B")
        given[key] = listed
    return name, given


def expand(signal: type[S], given: Mapping[str, Iterable[str]]) -> list[S]:
    """One instance for each combination of the values given, the last parameter changing fastest."""
    known = {one.name: one for one in parameters(signal)}
    listed = "; ".join(f"{one.name} ({one.allowed})" for one in known.values()) or "none"
    grids: dict[str, list[Any]] = {}
    for key, written in given.items():
        if key not in known:
            near = did_you_mean(key, known)
            raise InputError(f"signal {signal.name} has no parameter {key!r}.{near} Its parameters: {listed}.")
        try:
            values = [known[key].read(signal.name, value) for value in written]
        except InputError as error:
            raise InputError(f"{error} Its parameters: {listed}.") from error
        if len(set(values)) < len(values):
            raise InputError(f"signal {signal.name}: {key} lists the same value twice in {'|'.join(written)!r}")
        grids[key] = values
    return [signal(**dict(zip(grids, point, strict=True))) for point in itertools.product(*grids.values())]


def parameters_text(signal: ExitSignal) -> str:
    """Every parameter of a signal with its value, comma-separated."""
    return ",".join(f"{one.name}={value_text(getattr(signal, one.name))}" for one in parameters(type(signal)))


def signal_text(signal: ExitSignal) -> str:
    """The shortest text of a signal: the parameters that differ from their defaults, in declared order."""
    values = ((one, getattr(signal, one.name)) for one in parameters(type(signal)))
    set_here = ",".join(f"{one.name}={value_text(value)}" for one, value in values if value != one.default)
    return f"{signal.name}[{set_here}]" if set_here else signal.name


def to_json(signal: ExitSignal) -> dict[str, Any]:
    """Name, parameters and learned values as plain JSON values."""
    return {
        "name": signal.name,
        "parameters": {one.name: getattr(signal, one.name) for one in parameters(type(signal))},
        "learned": {name: plain(signal.name, getattr(signal, name)) for name in learned_fields(type(signal))},
    }


def from_json(signal: type[S], stored: Mapping[str, Any]) -> S:
    """The instance that :func:`to_json` described; an InputError where the description does not fit the class."""
    if stored.get("name") != signal.name:
        raise InputError(f"expected a stored signal {signal.name!r}, found {stored.get('name')!r}")
    given: dict[str, Any] = {}
    for part in ("parameters", "learned"):
        values = stored.get(part, {})
        if not isinstance(values, Mapping):
            raise InputError(f"stored signal {signal.name}: {part} must be a JSON object, found {values!r}")
        given |= frozen(values)
    known = {field.name for field in dataclasses.fields(signal)}
    if surplus := sorted(set(given) - known):
        raise InputError(
            f"stored signal {signal.name}: unknown {', '.join(surplus)}; known: {', '.join(sorted(known))}"
        )
    return signal(**given)


def plain(signal: str, value: Any) -> Any:
    """A learned value as JSON has it: tuples become lists, all else must be a finite number, text or None."""
    if isinstance(value, tuple | list):
        return [plain(signal, one) for one in value]
    if isinstance(value, Mapping):
        return {str(key): plain(signal, one) for key, one in value.items()}
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InputError(
        f"signal {signal}: a learned value must be finite numbers, text, tuples or mappings of these, found {value!r}"
    )


def frozen(value: Any) -> Any:
    """A JSON value with its lists as tuples, as a frozen signal keeps them."""
    if isinstance(value, list):
        return tuple(frozen(one) for one in value)
    if isinstance(value, Mapping):
        return {key: frozen(one) for key, one in value.items()}
    return value
