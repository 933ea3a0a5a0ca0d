"""What is asked of every cache of a suite, in plain values that travel to any process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from exitbench.benchmarks.results.vocabulary import ALL, Ties
from exitbench.benchmarks.suites.suite import Suite, check_readings
from exitbench.errors import InputError

if TYPE_CHECKING:
    from exitbench.signals.contract.signal import ExitSignal

BAND_COSTS = 48
"""Relative costs at which bands, and curves without a threshold axis, are read."""


@dataclass(frozen=True)
class Settings:
    """The questions of a suite, without its caches and signals."""

    layers: tuple[int | Fraction, ...] = (Fraction(1, 6), Fraction(1, 2), Fraction(5, 6))
    speed_ups: tuple[float, ...] = (2.0, 3.0, 4.0)
    primary_speed_up: float = 2.0
    protocols: tuple[str, ...] = ("in-sample", "cross-fit")
    resamples: int = 1000
    seed: int = 0
    folds: int = 5
    losses: tuple[float, ...] = (0.5, 1.0)
    rates_speed_up: float = 4.0
    thresholds: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)
    ties: Ties = "half"

    def __post_init__(self) -> None:
        check_readings(self, "settings")

    @classmethod
    def of(cls, suite: Suite) -> Settings:
        """The settings of a suite."""
        return cls(
            suite.layers,
            suite.speed_ups,
            suite.primary_speed_up,
            suite.protocols,
            suite.resamples,
            suite.seed,
            suite.folds,
            suite.losses,
            suite.rates_speed_up,
            dict(suite.thresholds),
            suite.ties,
        )

    @property
    def read_speed_ups(self) -> tuple[float, ...]:
        """Every speed-up at which something is read: the suite's own, the primary one, that of the rates."""
        return tuple(dict.fromkeys((*self.speed_ups, self.primary_speed_up, self.rates_speed_up)))

    def questions(self, signal: str, depth: int, integers: tuple[int, int] | None) -> Questions:
        """What is read off the curves of this signal in a network of ``depth`` layers."""
        readings = [Question(f"speed_up={value:g}", "speed_up", value) for value in self.read_speed_ups]
        readings += [Question(f"loss={value:g}", "loss", value) for value in self.losses]
        given: dict[float | str, None] = {}
        for value in self.thresholds.get(signal, self.thresholds.get("*", ())):
            if value == ALL:
                given |= dict.fromkeys(float(one) for one in range(integers[0], integers[1] + 1)) if integers else {}
            else:
                given[value] = None
        readings += [Question(f"tau={threshold_text(value)}", "tau", value) for value in given]
        step = (1 - 1 / depth) / (BAND_COSTS - 1)
        costs = tuple(1 / depth + step * number for number in range(BAND_COSTS))
        return Questions(tuple(readings), self.primary_speed_up, self.rates_speed_up, costs)


def check_thresholds(thresholds: Mapping[str, tuple[float | str, ...]], signals: Iterable[ExitSignal]) -> None:
    """Raise InputError where "all" thresholds are asked of a signal, by its name, that has no end of them."""
    for signal in signals:
        if ALL in thresholds.get(signal.name, ()) and signal.thresholds.values(depth=2) is None:
            raise InputError(
                f'thresholds.{signal.name}: "{ALL}" is for signals with integer thresholds; {signal.name} has '
                'continuous ones, so give numbers or "median"'
            )


def threshold_text(value: float | str) -> str:
    """A threshold as it is written in the ``at`` column: the shortest text that gives the number back."""
    if isinstance(value, str):
        return value
    return repr(float(value)).removesuffix(".0")


@dataclass(frozen=True)
class Question:
    """Where to read: ``at`` as in the results, with the number it stands for."""

    at: str
    kind: Literal["speed_up", "loss", "tau"]
    value: float | str


@dataclass(frozen=True)
class Questions:
    """All that is read off one configuration's curve; ``costs`` are relative costs of the band."""

    readings: tuple[Question, ...]
    primary: float
    rates_at: float
    costs: tuple[float, ...]

    def without_thresholds(self) -> Questions:
        """The same without the thresholds that were given."""
        return dataclasses.replace(self, readings=tuple(one for one in self.readings if one.kind != "tau"))
