"""The one text form of a signal, read and expanded.

A value may be the text of another signal, brackets and all: ``calibrated[of=cap[alpha=0.1]]``.

``cap`` is a signal at its defaults, ``cap[alpha=0.1]`` sets a parameter, ``f-pabee[divergence=kl,patience=2]``
sets two, and ``cap[alpha=0.01|0.1|1|10]`` is a grid: one signal for each combination. The same text serves
the command line, suites and result tables, and goes both ways: ``make(text).text == text`` for a text in
its shortest form.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from exitbench.bracketed_text import depth_of, is_balanced, split_outside
from exitbench.errors import InputError, did_you_mean
from exitbench.signals.contract.parameters import parameters
from exitbench.signals.contract.signal import Parametrised

P = TypeVar("P", bound=Parametrised)

NO_BRACKETS = re.compile(r"[^\[\],|=\s]+")


DEEPEST = 16
"""Brackets inside each other; signals read each other's texts, one call inside another."""

MOST_COMBINATIONS = 1000
"""Of the values that one text names."""

SHAPE = "expected a form such as cap, cap[alpha=0.1] or cap[alpha=0.1|1,center=true]"


def parse(written: str, kind: str = "signal") -> tuple[str, dict[str, list[str]]]:
    """A text as its name and, for each parameter named, the values given, still as text.

    ``kind`` is what an error calls it, where it is not a signal's.

    >>> parse("cap[alpha=0.1|1,center=true]")
    ('cap', {'alpha': ['0.1', '1'], 'center': ['true']})
    """
    if depth_of(written) > DEEPEST:
        raise InputError(
            f"cannot read the {kind} {written[:40]!r}...: expected at most {DEEPEST} brackets inside each other"
        )
    name, bracket, rest = written.strip().partition("[")
    name = name.strip()
    if not NO_BRACKETS.fullmatch(name) or (bracket and not rest.endswith("]")) or not is_balanced(f"[{rest[:-1]}]"):
        raise InputError(f"cannot read the {kind} {written!r}: {SHAPE}")
    if not bracket:
        return name, {}
    values_by_parameter: dict[str, list[str]] = {}
    for part in split_outside(rest[:-1], ","):
        key, equals, values = (piece.strip() for piece in part.partition("="))
        listed = [value.strip() for value in split_outside(values, "|")]
        if not equals or not key or not all(map(is_value, listed)):
            raise InputError(f"cannot read {part.strip()!r} in the {kind} {written!r}: {SHAPE}")
        if key in values_by_parameter:
            raise InputError(f"the {kind} {written!r} sets {key} twice; write a grid as {key}=A|B")
        values_by_parameter[key] = listed
    return name, values_by_parameter


def is_value(written: str) -> bool:
    """Whether this can be a value: a word, or a word with brackets behind it, which then must end it."""
    word, bracket, _ = written.partition("[")
    return NO_BRACKETS.fullmatch(word) is not None and (not bracket or written.endswith("]"))


def expand(owner: type[P], values_by_parameter: Mapping[str, Iterable[str]]) -> list[P]:
    """One instance for each combination of the values, the last parameter changing fastest."""
    who = f"{owner.kind} {owner.name}"
    declared = {parameter.name: parameter for parameter in parameters(owner)}
    listed = "; ".join(f"{parameter.name} ({parameter.allowed})" for parameter in declared.values()) or "none"
    grids: dict[str, list[Any]] = {}
    for key, written in values_by_parameter.items():
        if key not in declared:
            near = did_you_mean(key, declared)
            raise InputError(f"{who} has no parameter {key!r}.{near} Its parameters: {listed}.")
        try:
            values = [declared[key].read(who, value) for value in written]
        except InputError as error:
            raise InputError(f"{error} Its parameters: {listed}.") from error
        if len(set(values)) < len(values):
            raise InputError(f"{who}: {key} lists the same value twice in {'|'.join(written)!r}")
        grids[key] = values
    count = math.prod(map(len, grids.values()))
    if count > MOST_COMBINATIONS:
        raise InputError(f"{who}: expected a grid of at most {MOST_COMBINATIONS:,}, found {count:,}")
    attributes = [declared[key].attribute for key in grids]
    return [owner(**dict(zip(attributes, point, strict=True))) for point in itertools.product(*grids.values())]
