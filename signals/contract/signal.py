"""The contract of an exit signal: what a signal declares, what it is given, what it returns.

A signal is a frozen dataclass in a file of its own. Its parameters are its fields; what it declares
are class variables; what it does is :meth:`ExitSignal.score` (no memory) or :meth:`ExitSignal.step`
(memory from layer to layer). Layers come in order, so a signal cannot look ahead, and the samples
are independent of each other, so one implementation serves the replay of a whole cache, live
inference with one sample, and live batches that shrink as samples exit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from torch import Tensor

from exitbench.errors import InputError
from exitbench.exit_rule import Direction
from exitbench.head_algebra import Head
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.parameters import learned_fields, parameters, parameters_text, signal_text

NO_LAYERS: Mapping[int, str] = {}
UNTAUGHT = "untaught"
"""The learned field that lists layers without a score, which are no parameters."""


@dataclass(frozen=True)
class Reference:
    """Where a signal was published."""

    paper: str
    year: int
    link: str


@dataclass(frozen=True)
class Parametrised:
    """What has a name and parameters, which are checked when it is made: a signal, a method of ``derive``, a recipe.

    A subclass is a ``@dataclass(frozen=True)`` too and writes its parameters as fields made by :func:`parameter`.
    """

    kind: ClassVar[str]
    """What a message calls it: ``signal``, ``method``, ``recipe``."""
    name: ClassVar[str]
    title: ClassVar[str]
    reference: ClassVar[Reference]

    def __post_init__(self) -> None:
        for parameter in parameters(type(self)):
            value = parameter.checked(f"{self.kind} {self.name}", getattr(self, parameter.attribute))
            object.__setattr__(self, parameter.attribute, value)

    @property
    def text(self) -> str:
        """The shortest text that makes this again, such as ``cap[alpha=0.1]``; defaults are left out."""
        return signal_text(self)

    @property
    def settings(self) -> Mapping[str, Any]:
        """Every parameter with its value."""
        return {parameter.name: getattr(self, parameter.attribute) for parameter in parameters(type(self))}


@dataclass(frozen=True)
class Continuous:
    """Any real threshold."""

    def values(self, depth: int) -> range | None:
        """No list: every real number is a threshold."""
        return None

    def __str__(self) -> str:
        return "continuous"


@dataclass(frozen=True)
class Integers:
    """Integer thresholds ``low .. depth - below_depth``."""

    low: int
    below_depth: int

    def values(self, depth: int) -> range | None:
        """Every threshold in a network of ``depth`` layers."""
        return range(self.low, depth - self.below_depth + 1)

    def __str__(self) -> str:
        return f"integers {self.low}..M-{self.below_depth}"


@dataclass(frozen=True)
class ExitSignal(Parametrised):
    """One number per sample and internal layer, a direction, and the first layer that may exit.

    A subclass is a ``@dataclass(frozen=True)`` too. It sets the class variables, writes its
    parameters as fields made by :func:`parameter`, and overrides :meth:`score` or :meth:`step`.
    ``poolers`` lists those (``none``, ``shared``, ``per-layer``) it has a meaning under; empty where all are fine.
    ``probability_of`` is ``right`` where the score is a probability that the layer's answer is right, so that its
    calibration can be measured; empty elsewhere.
    ``exceptions`` maps the name of a conformance check that the signal breaks on purpose to the reason. ``forms``
    are the published forms of its score, where text and code differ; ``beyond_the_score`` says what else published
    code does otherwise.
    """

    kind: ClassVar[str] = "signal"
    exits_when: ClassVar[Direction]
    inputs: ClassVar[frozenset[Input]]
    thresholds: ClassVar[Continuous | Integers] = Continuous()
    poolers: ClassVar[frozenset[str]] = frozenset()
    exceptions: ClassVar[Mapping[str, str]] = {}
    probability_of: ClassVar[str] = ""
    forms: ClassVar[tuple[Form, ...]] = ()
    beyond_the_score: ClassVar[tuple[str, ...]] = ()

    @property
    def parameters_text(self) -> str:
        """Every parameter with its value, such as ``alpha=1,center=false``; empty where there is none."""
        return parameters_text(self)

    @property
    def shift_invariant(self) -> bool:
        """Whether a constant added to all of a sample's logits (to all rows of W and to b) changes nothing.

        A signal that always is may write ``shift_invariant = True``; one that depends on a parameter, a property.
        """
        return False

    def unsuited(self, pooler: str | None) -> str:
        """Why it has no meaning in a network that reads its layers through this pooler; empty where it has one."""
        if not self.poolers or pooler in self.poolers:
            return ""
        held = "does not say what pooler it has" if pooler is None else f"has the pooler {pooler!r}"
        return (
            f"signal {self.text} compares layers, so they must be read through one pooler or none "
            f"({' or '.join(sorted(self.poolers))}), and this network {held}"
        )

    @property
    def needs_one_width(self) -> bool:
        """Whether it treats the features of all internal layers alike, so that they must be of one width."""
        return False

    @property
    def first_exit_layer(self) -> int:
        """The first layer (from 1) at which a sample may exit."""
        return 1

    @property
    def first_scored_layer(self) -> int:
        """The first layer (from 1) that has a score; before it the score is NaN."""
        return 1

    @property
    def unscored_layers(self) -> Mapping[int, str]:
        """Layers that have no score and no exit although their neighbours may, each with the reason; usually none."""
        return NO_LAYERS

    def unscored_head(self, head: Head) -> str:
        """Why a layer with this head has no score and no exit, whatever the samples; empty where it has a score."""
        return ""

    def head_note(self, head: Head) -> str:
        """What a reader of a score at a layer with this head should know; empty where there is nothing to say."""
        return ""

    @property
    def needs_fit(self) -> bool:
        """Whether :meth:`fit` must be called before the first step."""
        return False

    @property
    def fitted_parameters(self) -> int:
        """How many numbers the fit gave it: those in its learned values, an array's entries one by one."""
        return sum(numbers_in(getattr(self, name)) for name in learned_fields(type(self)) if name != UNTAUGHT)

    def score(self, layer: Layer) -> Tensor:
        """The score of each sample at this layer, [samples] float64. For signals without memory."""
        raise TypeError(f"signal {self.name!r} overrides neither score nor step")

    def step(self, layer: Layer, state: State) -> tuple[Tensor, State]:
        """The score of each sample at this layer, and what to remember for the next one."""
        return self.score(layer), state

    def fit(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        """A signal that has learned from all layers of some labelled samples; by default, itself."""
        return self

    def leave_out(self, calibration: Sequence[Layer], labels: Tensor) -> Self:
        """The signal without the layers that all of these samples together cannot teach it; by default, itself.

        It is asked once, before any fit on a part of the samples, so that every fold leaves out the same layers.
        """
        return self

    def to_json(self) -> dict[str, Any]:
        """Name, parameters and learned values as plain JSON values; floats survive exactly."""
        return {
            "name": self.name,
            "parameters": {
                parameter.attribute: getattr(self, parameter.attribute) for parameter in parameters(type(self))
            },
            "learned": {name: plain(self.name, getattr(self, name)) for name in learned_fields(type(self))},
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Self:
        """The signal that :meth:`to_json` described; an InputError where the description does not fit the class."""
        if stored.get("name") != cls.name:
            raise InputError(f"expected a stored signal {cls.name!r}, found {stored.get('name')!r}")
        values_by_field: dict[str, Any] = {}
        for part in ("parameters", "learned"):
            values = stored.get(part, {})
            if not isinstance(values, Mapping):
                raise InputError(f"stored signal {cls.name}: {part} must be a JSON object, found {values!r}")
            values_by_field |= frozen(values)
        fields = {field.name for field in dataclasses.fields(cls)}
        if surplus := sorted(set(values_by_field) - fields):
            unknown = ", ".join(map(repr, surplus))
            raise InputError(f"stored signal {cls.name}: unknown {unknown}; known: {', '.join(sorted(fields))}")
        return cls(**values_by_field)


def plain(signal: str, value: Any) -> Any:
    """A learned value as JSON has it: tuples become lists, all else must be a finite number, text or None."""
    if isinstance(value, tuple | list):
        return [plain(signal, item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plain(signal, item) for key, item in value.items()}
    if value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value)):
        return value
    raise InputError(
        f"signal {signal}: a learned value must be finite numbers, text, tuples or mappings of these, found {value!r}"
    )


def numbers_in(value: Any) -> int:
    """How many numbers a learned value holds; an array that travels as text counts by its shape."""
    if isinstance(value, Mapping):
        return sum(numbers_in(item) for key, item in value.items() if key != UNTAUGHT)
    if isinstance(value, tuple | list):
        if is_packed(value):
            return math.prod(value[1])
        return sum(map(numbers_in, value))
    return int(isinstance(value, int | float) and not isinstance(value, bool))


def is_packed(value: Any) -> bool:
    """Whether a learned value is an array as text: its type, its shape, its bytes in base64."""
    return (
        isinstance(value, tuple | list)
        and len(value) == 3
        and isinstance(value[0], str)
        and isinstance(value[1], tuple | list)
        and isinstance(value[2], str)
    )


def frozen(value: Any) -> Any:
    """A JSON value with its lists as tuples, as a frozen signal keeps them."""
    if isinstance(value, list):
        return tuple(frozen(item) for item in value)
    if isinstance(value, Mapping):
        return {key: frozen(item) for key, item in value.items()}
    return value
