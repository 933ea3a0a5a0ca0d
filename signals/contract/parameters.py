"""The parameters of a signal: declared as typed fields, read from text, written as text.

A parameter is a dataclass field made by :func:`parameter`, which names its grid and its bounds; its annotation is its
type. A value that ``fit`` learns is a field made by :func:`learned`.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import re
import typing
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from exitbench.bracketed_text import is_balanced
from exitbench.errors import InputError, did_you_mean

NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
WORD = re.compile(r"[A-Za-z0-9_.+:-]+")
SIGNAL_TEXT = re.compile(r"[a-z][a-z0-9-]*(\[[A-Za-z0-9_.+:,=|\[\]-]*\])?")
INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
TYPES: dict[type, str] = {bool: "true or false", int: "a whole number", float: "a number", str: "a word"}


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
    signal: bool = False
    field: str = ""

    @property
    def attribute(self) -> str:
        """The field that holds its value: mostly of its own name."""
        return self.field or self.name

    @property
    def allowed(self) -> str:
        """What values it takes, in words.

        >>> Parameter("patience", int, 2, (), (), 1, None, "").allowed
        'a whole number, at least 1'
        """
        if self.signal:
            return "the text of a signal, such as cap[alpha=0.1]"
        if self.choices:
            return " or ".join(value_text(choice) for choice in self.choices)
        bound = f", at least {self.at_least:g}" if self.at_least is not None else ""
        bound += f", above {self.above:g}" if self.above is not None else ""
        return TYPES[self.type] + bound

    def read(self, owner: str, written: str) -> Any:
        """The value that ``written`` stands for; an InputError where it is ill-typed or not allowed.

        ``owner`` is whose parameter it is, in words: ``signal cap``.
        """
        value: Any = written
        if self.type is bool:
            value = {"true": True, "false": False}.get(written, written)
        elif self.type is int and INTEGER.fullmatch(written):
            value = int(written)
        elif self.type is float and DECIMAL.fullmatch(written):
            value = float(written)
        return self.checked(owner, value)

    def checked(self, owner: str, value: Any) -> Any:
        """``value`` as the declared type, or an InputError that says what is allowed."""
        typed = self._typed(value)
        if typed is None or not self._within(typed):
            written = value_text(value) if isinstance(value, bool | int | float | str) else repr(value)
            near = did_you_mean(written, (value_text(choice) for choice in self.choices))
            raise InputError(f"{owner}: {self.name} must be {self.allowed}, found {written!r}.{near}")
        return typed

    def _typed(self, value: Any) -> Any:
        """``value`` converted where that loses nothing, ``None`` where it is of another type."""
        if self.type is str:
            word = SIGNAL_TEXT if self.signal else WORD
            return value if isinstance(value, str) and word.fullmatch(value) and is_balanced(value) else None
        if self.type is bool or isinstance(value, bool):
            return value if self.type is bool and isinstance(value, bool) else None
        if self.type is int:
            return int(value) if isinstance(value, numbers.Integral) else None
        if not isinstance(value, numbers.Real):
            return None
        try:
            number = float(value)
        except OverflowError:  # a whole number may have any size
            return None
        return number + 0.0 if math.isfinite(number) else None  # -0.0 becomes 0.0: one value, one text

    def _within(self, value: Any) -> bool:
        return (
            (not self.choices or value in self.choices)
            and (self.at_least is None or value >= self.at_least)
            and (self.above is None or value > self.above)
        )


_parameters_by_class: WeakKeyDictionary[type, tuple[Parameter, ...]] = WeakKeyDictionary()
"""A run asks hundreds of times for the same classes, and reading annotations is slow."""


def parameters(signal: type[Any]) -> tuple[Parameter, ...]:
    """The parameters of a signal class, in the order they are written; learned values are none of them."""
    if signal not in _parameters_by_class:
        _parameters_by_class[signal] = _read_parameters(signal)
    return _parameters_by_class[signal]


def _read_parameters(signal: type[Any]) -> tuple[Parameter, ...]:
    types = typing.get_type_hints(signal)
    return tuple(
        Parameter(
            name=field.metadata.get("written") or field.name,
            field=field.name,
            type=types[field.name],
            default=field.default,
            grid=field.metadata.get("grid", ()),
            choices=field.metadata.get("choices", ()),
            at_least=field.metadata.get("at_least"),
            above=field.metadata.get("above"),
            help=field.metadata.get("help", ""),
            signal=field.metadata.get("signal", False),
        )
        for field in dataclasses.fields(signal)
        if not field.metadata.get("learned")
    )


def learned_fields(signal: type[Any]) -> tuple[str, ...]:
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


def parameters_text(signal: Any) -> str:
    """Every parameter of a signal with its value, comma-separated."""
    values = ((parameter.name, getattr(signal, parameter.attribute)) for parameter in parameters(type(signal)))
    return ",".join(f"{name}={value_text(value)}" for name, value in values)


def signal_text(signal: Any) -> str:
    """The shortest text of a signal: the parameters that differ from their defaults, in declared order."""
    values = ((parameter, getattr(signal, parameter.attribute)) for parameter in parameters(type(signal)))
    changed = ",".join(
        f"{parameter.name}={value_text(value)}" for parameter, value in values if value != parameter.default
    )
    return f"{signal.name}[{changed}]" if changed else signal.name


def parameter(
    default: Any,
    *,
    grid: Sequence[Any] = (),
    choices: Sequence[Any] = (),
    at_least: float | None = None,
    above: float | None = None,
    help: str = "",  # noqa: A002
    signal: bool = False,
    written: str = "",
) -> Any:
    """A parameter of a signal: its default, the published grid, the values allowed, one line of help.

    The field's annotation (``int``, ``float``, ``bool`` or ``str``) is its type. ``choices`` lists the only
    values allowed; ``at_least`` and ``above`` bound a number from below, the second one strictly. ``signal`` says that
    the value is the text of another signal. ``written`` is its name in a text, where that cannot be the field's.
    """
    return field(
        default=default,
        metadata={
            "grid": tuple(grid),
            "choices": tuple(choices),
            "at_least": at_least,
            "above": above,
            "help": help,
            "signal": signal,
            "written": written,
        },
    )


def learned() -> Any:
    """A value that :meth:`ExitSignal.fit` learns; ``None`` before. It is kept as JSON, so: numbers, text, tuples."""
    return field(default=None, metadata={"learned": True})
