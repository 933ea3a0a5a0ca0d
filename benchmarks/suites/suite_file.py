"""Suites as TOML files: those that come with exitbench, and a user's own."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

from exitbench.benchmarks.results.vocabulary import ALL, MEDIAN
from exitbench.benchmarks.suites.suite import Suite
from exitbench.errors import InputError, did_you_mean
from exitbench.places import FIXTURES

SUITES = Path(__file__).parent


OPTIONAL = {"description", "folds", "losses", "rates_speed_up", "thresholds", "ties", "held_out"}


def known_suites() -> dict[str, Path]:
    """The suites that come with exitbench, by name."""
    return {path.stem: path for path in sorted(SUITES.glob("*.toml"))}


def load_suite(name_or_file: str | Path, fixtures: Path = FIXTURES) -> Suite:
    """A suite by the name of one that comes with exitbench, or from a TOML file of your own."""
    shipped = known_suites()
    file = shipped.get(str(name_or_file), Path(name_or_file))
    if not file.is_file():
        raise InputError(
            f"no suite {str(name_or_file)!r}: neither a file nor one of {', '.join(shipped)}."
            f"{did_you_mean(str(name_or_file), shipped)}"
        )
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:  # not TOML, not UTF-8, or a number of more digits than Python reads
        raise InputError(f"{file.name} is not a TOML file: {error}") from None
    return suite_of_values(values, file, fixtures)


def suite_of_values(values: Mapping[str, Any], file: Path, fixtures: Path = FIXTURES) -> Suite:
    """A suite from the keys of its TOML file; ``file`` is where relative cache paths begin."""
    known = {spec.name for spec in dataclasses.fields(Suite)}
    for key in values:
        if key not in known:
            raise InputError(f"{file.name}: unknown key {key!r}.{did_you_mean(key, known)}")
    missing = sorted(known - OPTIONAL - set(values))
    if missing:
        raise InputError(f"{file.name}: missing key {', '.join(missing)}")

    def text(key: str, value: Any) -> str:
        return str(typed(value, str, "text", key))

    def number(key: str, value: Any) -> float:
        found = typed(value, (int, float), "a number", key)
        try:
            return float(found)
        except OverflowError:
            raise InputError(f"{file.name}: {key}: a whole number of {len(str(found))} digits is too large") from None

    def integer(key: str, value: Any) -> int:
        return int(typed(value, int, "a whole number", key))

    def many(key: str, value: Any) -> list[Any]:
        return list(typed(value, list, "a list", key))

    def table(key: str, value: Any) -> dict[str, Any]:
        return dict(typed(value, dict, "a table", key))

    def typed(value: Any, kind: Any, expected: str, key: str) -> Any:
        if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
            raise InputError(f"{file.name}: {key} must be {expected}, found {value!r}")
        return value

    def threshold(key: str, value: Any) -> float | str:
        words = (MEDIAN, ALL)
        return str(value) if value in words else number(f'{key} (numbers, "{MEDIAN}" or "{ALL}")', value)

    def cache(value: Any) -> Path:
        return cache_path(text("caches", value), file.parent, fixtures)

    read: dict[str, Any] = {
        "name": text("name", values["name"]),
        "caches": tuple(cache(value) for value in many("caches", values["caches"])),
        "signals": tuple(text("signals", value) for value in many("signals", values["signals"])),
        "layers": tuple(layer_of(value, file.name) for value in many("layers", values["layers"])),
        "speed_ups": tuple(number("speed_ups", value) for value in many("speed_ups", values["speed_ups"])),
        "primary_speed_up": number("primary_speed_up", values["primary_speed_up"]),
        "protocols": tuple(text("protocols", value) for value in many("protocols", values["protocols"])),
        "resamples": integer("resamples", values["resamples"]),
        "seed": integer("seed", values["seed"]),
    }
    optional: dict[str, Any] = {
        "description": lambda value: text("description", value),
        "folds": lambda value: integer("folds", value),
        "losses": lambda value: tuple(number("losses", item) for item in many("losses", value)),
        "rates_speed_up": lambda value: number("rates_speed_up", value),
        "thresholds": lambda value: {
            name: tuple(threshold(f"thresholds.{name}", item) for item in many(f"thresholds.{name}", given))
            for name, given in table("thresholds", value).items()
        },
        "ties": lambda value: text("ties", value),
        "held_out": lambda value: {cache(test): cache(given) for test, given in table("held_out", value).items()},
    }
    read |= {key: convert(values[key]) for key, convert in optional.items() if key in values}
    return Suite(**read)


def suite_of_caches(caches: Sequence[Path], fixtures: Path = FIXTURES) -> Suite:
    """The paper's questions asked of other caches, for caches named on the command line."""
    paper = load_suite("paper", fixtures)
    name = caches[0].resolve().name if len(caches) == 1 else "caches"
    return dataclasses.replace(paper, name=name, caches=tuple(caches), description="", held_out={})


def cache_path(text: str, beside: Path, fixtures: Path = FIXTURES) -> Path:
    """Where a suite's cache lies: a bare name means a fixture, unless such a folder is beside the file."""
    relative = beside / text
    bare = Path(text).name == text
    return fixtures / "caches" / text if bare and not relative.is_dir() else relative


def layer_of(value: Any, where: str) -> int | Fraction:
    """A layer as written in a suite: a number from 1, or a text such as "1/2"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            pass
    raise InputError(f'{where}: layers are numbers such as 2 or fractions such as "1/6", found {value!r}')
