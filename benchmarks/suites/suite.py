"""A suite: which caches, which signals and which questions make up one run, as a TOML file.

Keys (all but the last seven are required in a file)::

    name               text; also the default output folder
    caches             names under fixtures/caches, or paths relative to the suite file
    signals            texts of signals, grids as cap[alpha=0.01|0.1]
    layers             layers shown in tables and figures: numbers from 1, or fractions of the depth ("1/2")
    speed_ups          matched readings
    primary_speed_up   where parameters are chosen
    protocols          of in-sample, cross-fit, held-out
    resamples          bootstrap replicates
    seed               of folds and resamples

    description        one line for `exitbench list suites`                        (empty)
    folds              of the cross-fit protocol                                   (5)
    losses             points of task score, for the largest speed-up within a loss ([0.5, 1.0])
    rates_speed_up     where premature and delayed rates are read                  (4.0)
    thresholds         table of signal name, or "*" for all others, to a list of thresholds (none);
                       "median" is the lower median of the scores at the signal's first exit layer,
                       always the score of an actual sample; "all" is every threshold of a signal
                       with integer thresholds, and an error where another signal is named
    ties               what a tied pair counts for DIS: "half" of a pair in order, or nothing ("strict") ("half")
    held_out           table of cache to its calibration cache, for the held-out protocol (none)

Nothing heavy is imported here: listing suites must start at once.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol

from exitbench.benchmarks.results.vocabulary import ALL, MEDIAN, PROTOCOLS, TIES, Ties
from exitbench.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Suite:
    """One run's worth of questions. Build with :func:`load_suite` or :func:`suite_of_caches`."""

    name: str
    caches: tuple[Path, ...]
    signals: tuple[str, ...]
    layers: tuple[int | Fraction, ...]
    speed_ups: tuple[float, ...]
    primary_speed_up: float
    protocols: tuple[str, ...]
    resamples: int
    seed: int
    description: str = ""
    folds: int = 5
    losses: tuple[float, ...] = (0.5, 1.0)
    rates_speed_up: float = 4.0
    thresholds: Mapping[str, tuple[float | str, ...]] = field(default_factory=dict)
    ties: Ties = "half"
    held_out: Mapping[Path, Path] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_suite(self)

    def layers_of(self, depth: int) -> tuple[int, ...]:
        """The suite's layers in a network of ``depth`` layers, ascending, without repeats.

        Raises InputError for a number that is not an internal layer of that network.
        """
        return layers_at(self.layers, depth)

    def missing_caches(self) -> tuple[Path, ...]:
        """The caches, calibration caches included, that are not on this machine."""
        wanted = dict.fromkeys((*self.caches, *self.held_out.values()))
        return tuple(path for path in wanted if not (path / "manifest.json").is_file())

    def require_caches(self) -> None:
        """Raise InputError naming every cache that is not there."""
        missing = self.missing_caches()
        if missing:
            names = ", ".join(path.name for path in missing)
            places = ", ".join(sorted({str(path.parent) for path in missing}))
            raise InputError(
                f"suite {self.name!r}: {len(missing)} of {len(self.caches)} caches are missing: {names} "
                f"(no manifest.json under {places})"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``run.json``; caches by name, since paths differ between machines."""
        values = dataclasses.asdict(self)
        values["caches"] = [path.name for path in self.caches]
        values["layers"] = [layer if isinstance(layer, int) else str(layer) for layer in self.layers]
        values["thresholds"] = {name: list(given) for name, given in self.thresholds.items()}
        values["held_out"] = {cache.name: calibration.name for cache, calibration in self.held_out.items()}
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def check_suite(suite: Suite) -> None:
    """Raise InputError for a suite whose values make no sense together."""
    where = f"suite {suite.name!r}"

    def refuse(condition: bool, message: str) -> None:
        if condition:
            raise InputError(f"{where}: {message}")

    refuse(not suite.name or any(sign in suite.name for sign in "/\\"), "name must be text without slashes")
    refuse(suite.name in (".", ".."), "name must be that of a folder of its own")
    for key in ("caches", "signals", "layers", "protocols"):
        refuse(not getattr(suite, key), f"{key} must not be empty")
    for key in ("caches", "signals", "protocols"):
        values = getattr(suite, key)
        refuse(len(set(values)) != len(values), f"{key} names something twice")
    names = [path.name for path in suite.caches]
    twice = sorted({name for name in names if names.count(name) > 1})
    refuse(bool(twice), f"two caches share the name {', '.join(twice)}; results could not tell them apart")
    for protocol in suite.protocols:
        known = f"{', '.join(PROTOCOLS)}.{did_you_mean(protocol, PROTOCOLS)}"
        refuse(protocol not in PROTOCOLS, f"unknown protocol {protocol!r}; known: {known}")
    for layer in suite.layers:
        inside = layer >= 1 if isinstance(layer, int) else 0 < layer < 1
        refuse(not inside, f"layers are numbers from 1 or fractions between 0 and 1, found {layer}")
    for key in ("speed_ups", "primary_speed_up", "rates_speed_up"):
        values = getattr(suite, key)
        for value in values if isinstance(values, tuple) else (values,):
            refuse(not 1 <= value < float("inf"), f"{key}: a speed-up is at least 1, found {value:g}")
    refuse(any(not 0 <= loss <= 100 for loss in suite.losses), "losses are points between 0 and 100")
    check_readings(suite, where)
    refuse(suite.resamples < 2, f"resamples must be at least 2, found {suite.resamples}")
    refuse(not 2 <= suite.folds <= 100, f"folds must be between 2 and 100, found {suite.folds}")
    refuse(suite.seed < 0, f"seed must not be negative, found {suite.seed}")
    if "held-out" in suite.protocols:
        bare = [path.name for path in suite.caches if path not in suite.held_out]
        refuse(bool(bare), f"protocol held-out needs a calibration cache in [held_out] for {', '.join(bare)}")
    for cache, calibration in suite.held_out.items():
        refuse(cache not in suite.caches, f"held_out names {cache.name}, which is not among the caches")
        refuse(cache.resolve() == calibration.resolve(), f"held_out: {cache.name} cannot be its own calibration cache")


class Readings(Protocol):
    """What is read off curves and rankings: the part that a suite and its settings share."""

    @property
    def speed_ups(self) -> tuple[float, ...]: ...
    @property
    def primary_speed_up(self) -> float: ...
    @property
    def rates_speed_up(self) -> float: ...
    @property
    def losses(self) -> tuple[float, ...]: ...
    @property
    def thresholds(self) -> Mapping[str, tuple[float | str, ...]]: ...
    @property
    def ties(self) -> Ties: ...


def check_readings(asked: Readings, where: str) -> None:
    """Raise InputError for readings that results could not tell apart, or that are no readings."""
    for key, values in (("speed_ups", asked.speed_ups), ("losses", asked.losses)):
        texts = [f"{value:g}" for value in values]
        if len(set(texts)) != len(texts):
            raise InputError(f"{where}: {key} names something twice, as results print it: {', '.join(texts)}")
    for key, value in (("primary_speed_up", asked.primary_speed_up), ("rates_speed_up", asked.rates_speed_up)):
        for other in (*asked.speed_ups, asked.primary_speed_up):
            if value != other and f"{value:g}" == f"{other:g}":
                raise InputError(f"{where}: {key} {value!r} and the speed-up {other!r} are both printed as {value:g}")
    for name, given in asked.thresholds.items():
        for threshold in given:
            if threshold not in (MEDIAN, ALL) and (isinstance(threshold, str) or math.isnan(threshold)):
                known = f'numbers, "{MEDIAN}" or "{ALL}"'
                raise InputError(f"{where}: thresholds.{name} must be {known}, found {threshold}")
    if asked.ties not in TIES:
        raise InputError(f"{where}: ties must be {' or '.join(TIES)}, found {asked.ties!r}")


def layers_at(layers: Sequence[int | Fraction], depth: int) -> tuple[int, ...]:
    """Layers, some as fractions of the depth, in a network of ``depth`` layers; ascending, without repeats.

    >>> layers_at([Fraction(1, 6), Fraction(1, 2), Fraction(5, 6)], 12)
    (2, 6, 10)
    """
    found = set()
    for layer in layers:
        if isinstance(layer, int) and layer > depth - 1:
            raise InputError(
                f"layer {layer} is not an internal layer of a network with {depth} layers (1..{depth - 1}); "
                'fractions such as "1/2" fit every depth'
            )
        found.add(layer if isinstance(layer, int) else min(max(round(layer * depth), 1), depth - 1))
    return tuple(sorted(found))
