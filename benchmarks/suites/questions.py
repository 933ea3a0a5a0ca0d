"""What is asked of every cache: the operating points, layers and protocols of a suite, and how sure answers must be.

Nothing heavy is imported here: questions travel to processes that only measure, and listing suites must start at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Literal

from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up, at_threshold, within_loss
from exitbench.benchmarks.results.vocabulary import ALL, MEDIAN, PER_LAYER, PROTOCOLS, TIES, Ties
from exitbench.errors import InputError, did_you_mean

if TYPE_CHECKING:
    from exitbench.signals.contract.signal import ExitSignal

TARGETS = ("labels", "final")
MOST_RESAMPLES = 100_000
"""A p-value needs no more, and memory grows with them."""
NO_PER_LAYER = "a signal with integer thresholds has too few of them to match a speed-up layer by layer"
"""Why a signal that counts has no per-layer thresholds."""
DEALS = 5
"""Deals of folds where a suite does not say otherwise."""
MOST_DEALS = 100
MOST_POINTS = 100
"""Speed-ups, losses or layers of one suite: each is a resampled point of every signal, and a column of every table."""
BAND_COSTS = 48
"""Relative costs at which bands, and curves without a threshold axis, are read."""


@dataclass(frozen=True)
class Questions:
    """What a run answers for every cache and signal; the keys of a suite file have the same names.

    ``layers`` are shown in tables, as numbers from 1 or fractions of the depth; what belongs to no operating point
    uses the parameters chosen at the ``primary_speed_up``; ``thresholds`` maps a signal, or ``*`` for all others, to
    given thresholds; ``area_range`` are the relative costs between which the area under a curve is taken;
    ``deals`` is how often cross-fitting deals its folds, by default 5 times, once for a signal that learns.
    With ``promises`` it is certified how fast every signal may get for the harms of ``vocabulary.PROMISED_HARMS``.
    By the ``target`` an answer is right if it equals the label, or if it agrees with the last layer's; ``None``: as
    each cache says.
    """

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
    area_range: tuple[float, float] = (1 / 3, 1.0)
    deals: int | None = None
    promises: bool = True
    target: Literal["labels", "final"] | None = None

    def __post_init__(self) -> None:
        check_counts(self)
        check_layers(self.layers)
        check_protocols(self.protocols)
        check_speed_ups(self)
        check_losses(self.losses)
        check_thresholds(self.thresholds)
        check_area_range(self.area_range)
        check_sampling(self)

    def deals_of(self, *, learns: bool) -> int:
        """How often the folds of cross-fitting are dealt for a signal; what learns is fitted anew for each."""
        return self.deals if self.deals is not None else 1 if learns else DEALS

    @property
    def every_speed_up(self) -> tuple[float, ...]:
        """The suite's speed-ups, the primary one and that of the exit rates, each once."""
        return tuple(dict.fromkeys((*self.speed_ups, self.primary_speed_up, self.rates_speed_up)))

    def per_layer(self, signal: str) -> bool:
        """Whether thresholds of each layer's own are asked of a signal, beside the one that all layers share."""
        return PER_LAYER in self.thresholds.get(signal, self.thresholds.get("*", ()))

    def operating_points(self, signal: str, integers: tuple[int, int] | None) -> tuple[OperatingPoint, ...]:
        """Where a signal is evaluated; ``integers`` is the range of its thresholds, ``None`` for real ones."""
        thresholds: dict[float | str, None] = {}
        for threshold in self.thresholds.get(signal, self.thresholds.get("*", ())):
            if threshold == PER_LAYER:
                continue
            if threshold != ALL:
                thresholds[threshold] = None
            elif integers is not None:
                thresholds |= dict.fromkeys(float(number) for number in range(integers[0], integers[1] + 1))
        return (
            *map(at_speed_up, self.every_speed_up),
            *map(within_loss, self.losses),
            *map(at_threshold, thresholds),
        )


def band_costs(cheapest: float) -> tuple[float, ...]:
    """The relative costs of a band, evenly from the first layer's, ``cheapest``, to that of all layers."""
    if not 0 < cheapest <= 1:
        raise ValueError(f"a relative cost lies between 0 and 1, found {cheapest}")
    step = (1 - cheapest) / (BAND_COSTS - 1)
    return tuple(cheapest + step * number for number in range(BAND_COSTS))


def layers_at(layers: Sequence[int | Fraction], depth: int) -> tuple[int, ...]:
    """Layers, some as fractions of the depth, in a network of ``depth`` layers; ascending, without repeats.

    >>> layers_at([Fraction(1, 6), Fraction(1, 2), Fraction(5, 6)], 12)
    (2, 6, 10)
    """
    numbers = set()
    for layer in layers:
        if isinstance(layer, int) and layer > depth - 1:
            raise InputError(
                f"layer {layer} is not an internal layer of a network with {depth} layers (1..{depth - 1}); "
                'fractions such as "1/2" fit every depth'
            )
        numbers.add(layer if isinstance(layer, int) else min(max(round(layer * depth), 1), depth - 1))
    return tuple(sorted(numbers))


def check_counts(questions: Questions) -> None:
    """Raise InputError for more operating points and layers than anybody can read."""
    for key, values in (("speed_ups", questions.speed_ups), ("losses", questions.losses), ("layers", questions.layers)):
        if len(values) > MOST_POINTS:
            raise InputError(f"{key} must be at most {MOST_POINTS}, found {len(values):,}")


def check_layers(layers: Sequence[int | Fraction]) -> None:
    """Raise InputError for layers that no network has."""
    if not layers:
        raise InputError("layers must not be empty")
    for layer in layers:
        if not (layer >= 1 if isinstance(layer, int) else 0 < layer < 1):
            raise InputError(f"layers are numbers from 1 or fractions between 0 and 1, found {layer}")


def check_protocols(protocols: Sequence[str]) -> None:
    """Raise InputError for a protocol that there is none of, and for none at all."""
    if not protocols:
        raise InputError("protocols must not be empty")
    refuse_repeats("protocols", protocols)
    for protocol in protocols:
        if protocol not in PROTOCOLS:
            choices = f"{', '.join(PROTOCOLS)}.{did_you_mean(protocol, PROTOCOLS)}"
            raise InputError(f"unknown protocol {protocol!r}; known: {choices}")


def check_speed_ups(questions: Questions) -> None:
    """Raise InputError for speed-ups below 1, and for those that results could not tell apart."""
    primary, rates = questions.primary_speed_up, questions.rates_speed_up
    for key, values in (
        ("speed_ups", questions.speed_ups),
        ("primary_speed_up", (primary,)),
        ("rates_speed_up", (rates,)),
    ):
        for speed_up in values:
            if not 1 <= speed_up < math.inf:
                raise InputError(f"{key}: a speed-up is at least 1, found {speed_up:g}")
    refuse_same_print("speed_ups", questions.speed_ups)
    for key, speed_up in (("primary_speed_up", primary), ("rates_speed_up", rates)):
        for other in (*questions.speed_ups, primary):
            if speed_up != other and f"{speed_up:g}" == f"{other:g}":
                raise InputError(f"{key} {speed_up!r} and the speed-up {other!r} are both printed as {speed_up:g}")


def check_losses(losses: Sequence[float]) -> None:
    """Raise InputError for losses that are no points of a task score."""
    if any(not 0 <= loss <= 100 for loss in losses):
        raise InputError("losses are points between 0 and 100")
    refuse_same_print("losses", losses)


def check_thresholds(thresholds: Mapping[str, tuple[float | str, ...]]) -> None:
    """Raise InputError for a threshold that is neither a number nor one of the three words."""
    for signal, listed in thresholds.items():
        for threshold in listed:
            if threshold not in (MEDIAN, ALL, PER_LAYER) and (isinstance(threshold, str) or math.isnan(threshold)):
                words = f'numbers, "{MEDIAN}", "{ALL}" or "{PER_LAYER}"'
                raise InputError(f"thresholds.{signal} must be {words}, found {threshold}")


def check_area_range(costs: Sequence[float]) -> None:
    """Raise InputError for what is no range of relative costs."""
    if len(costs) != 2 or not 0 < costs[0] < costs[1] <= 1:
        listed = ", ".join(f"{cost:g}" for cost in costs)
        raise InputError(f"area_range must be two relative costs, 0 < low < high <= 1, found {listed}")


def check_sampling(questions: Questions) -> None:
    """Raise InputError for numbers of resamples and folds that give no answer, and for an unknown rule for ties."""
    if questions.target not in (None, *TARGETS):
        raise InputError(f"target must be {' or '.join(TARGETS)}, found {questions.target!r}")
    if questions.ties not in TIES:
        raise InputError(f"ties must be {' or '.join(TIES)}, found {questions.ties!r}")
    if not 2 <= questions.resamples <= MOST_RESAMPLES:
        raise InputError(f"resamples must be between 2 and {MOST_RESAMPLES:,}, found {questions.resamples}")
    if not 2 <= questions.folds <= 100:
        raise InputError(f"folds must be between 2 and 100, found {questions.folds}")
    if questions.deals is not None and not 1 <= questions.deals <= MOST_DEALS:
        raise InputError(f"deals must be between 1 and {MOST_DEALS}, found {questions.deals}")
    if questions.seed < 0:
        raise InputError(f"seed must not be negative, found {questions.seed}")


def check_thresholds_exist(thresholds: Mapping[str, tuple[float | str, ...]], signals: Iterable[ExitSignal]) -> None:
    """Raise InputError for thresholds asked of a signal, by its name, that it cannot have."""
    for signal in signals:
        asked, continuous = thresholds.get(signal.name, ()), signal.thresholds.values(depth=2) is None
        if PER_LAYER in asked and not continuous:
            raise InputError(f'thresholds.{signal.name}: "{PER_LAYER}" is for continuous thresholds; {NO_PER_LAYER}')
        if ALL in asked and continuous:
            raise InputError(
                f'thresholds.{signal.name}: "{ALL}" is for signals with integer thresholds; {signal.name} has '
                'continuous ones, so give numbers or "median"'
            )


def refuse_repeats(key: str, values: Sequence[object]) -> None:
    """Raise InputError when something is listed twice."""
    if len(set(values)) != len(values):
        raise InputError(f"{key} names something twice")


def refuse_same_print(key: str, values: Sequence[float]) -> None:
    """Raise InputError for numbers that results would print alike."""
    texts = [f"{value:g}" for value in values]
    if len(set(texts)) != len(texts):
        raise InputError(f"{key} names something twice, as results print it: {', '.join(texts)}")
