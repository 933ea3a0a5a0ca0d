"""Suites as TOML files: those that come with exitbench, and a user's own.

Keys (those with a default may be left out)::

    caches             names under fixtures/caches, paths relative to the suite file, or URLs of an object store
    signals            texts of signals, grids as cap[alpha=0.01|0.1]

    name               text; also the default output folder                        (the file's name without ending)
    layers             layers shown in tables and figures: numbers from 1, or fractions of the depth ("1/2")
                                                                                   (["1/6", "1/2", "5/6"])
    speed_ups          speed-ups at which signals are compared                     ([2, 3, 4])
    primary_speed_up   whose choice of parameters serves DIS and whatever else belongs to no operating point (2)
    protocols          of in-sample, cross-fit, held-out                           (["in-sample", "cross-fit"])
    resamples          bootstrap replicates                                        (1000)
    seed               of folds and resamples                                      (0)
    description        one line for `exitbench list suites`                        (empty)
    folds              of the cross-fit protocol                                   (5)
    losses             points of task score, for the largest speed-up within a loss ([0.5, 1.0])
    rates_speed_up     where premature and delayed rates have intervals and layers (4.0)
    thresholds         table of signal name, or "*" for all others, to a list of thresholds (none);
                       "median" is the lower median of the scores at the signal's first exit layer,
                       always the score of an actual sample; "all" is every threshold of a signal
                       with integer thresholds, and an error where another signal is named; "per-layer" adds
                       thresholds of each layer's own as a baseline, which shows what sharing one costs
                       (thresholds = "per-layer" asks it of every signal)
    ties               what a tied pair counts for DIS: "half" of a pair in order, or nothing ("strict") ("half")
    deals              how often cross-fit deals its folds; values are means over deals (5; 1 for signals that learn)
    area_range         two relative costs (mean exit layer over depth), as numbers or fractions: where the area under a
                       trade-off curve begins and ends                             (["1/3", 1])
    promises           whether to certify what can be promised of every signal       (true)
    target             what a right answer is: equal to the label ("labels"), or to the last layer's answer
                       ("final")                                                   (as each cache says)
    held_out           table of cache to its calibration cache, for the held-out protocol (NAME-calibration beside
                       NAME-dev, where there is one)
    findings           table with a subject, a signal of the list by its name (or as it is written there, where
                       several have the name), and against, others: what the findings are about (no findings)
"""

from __future__ import annotations

import dataclasses
import re
import tomllib
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, PlainValidator, Strict, StrictBool, ValidationError

from exitbench.benchmarks.results.vocabulary import ALL, MEDIAN, PER_LAYER
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Contest, Suite
from exitbench.cache.object_store import fetched_cache, is_url
from exitbench.errors import InputError, did_you_mean
from exitbench.places import FIXTURES

SUITES = Path(__file__).parent
DEFAULT = "published"
"""The suite that `exitbench run` runs when none is named."""
LARGEST = 10**6
"""Bytes of a suite; the parser takes a minute for fifty times as many."""
SHORT_FRACTION = re.compile(r"[-+]?[0-9]{0,9}[./]?[0-9]{1,9}", re.ASCII)
"""What may be a fraction: Python reads exponents too, and takes minutes and gigabytes for "1e-999999999"."""


def as_float(value: Any) -> float:
    """A number of any kind as a float."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"expected a number, found {value!r}")
    try:
        return float(value)
    except OverflowError:
        raise ValueError(f"a whole number of {len(str(value))} digits is too large") from None


def threshold(value: Any) -> float | str:
    """A threshold: a number, or a word that stands for some."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f'expected numbers, "{MEDIAN}", "{ALL}" or "{PER_LAYER}", found {value!r}')
    return as_float(value)


def threshold_table(value: Any) -> Any:
    """The table that a single word stands for: the word is meant for every signal."""
    if not isinstance(value, str):
        return value
    if value != PER_LAYER:
        raise ValueError(f'expected a table or "{PER_LAYER}", found {value!r}')
    return {"*": [value]}


def share(value: Any) -> float:
    """A number, or a text such as "1/3"."""
    return float(layer(value)) if isinstance(value, str) else as_float(value)


def layer(value: Any) -> int | Fraction:
    """A layer: a number from 1, or a text such as "1/2"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str) and SHORT_FRACTION.fullmatch(value.strip()):
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            pass
    raise ValueError(f'expected numbers such as 2 or fractions such as "1/6", found {value!r}')


Number = Annotated[float, PlainValidator(as_float)]
Threshold = Annotated[float | str, PlainValidator(threshold)]
ThresholdTable = Annotated[dict[str, tuple[Threshold, ...]], BeforeValidator(threshold_table)]
LayerNumber = Annotated[int | Fraction, PlainValidator(layer)]
Share = Annotated[float, PlainValidator(share)]
WholeNumber = Annotated[int, Strict()]


class FindingsTable(BaseModel):
    """The table ``[findings]`` of a suite file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    subject: str
    against: tuple[str, ...]


class SuiteFile(BaseModel):
    """The keys of a suite file with their types; what values make sense is for :class:`Questions` to say."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str = ""
    caches: tuple[str, ...]
    signals: tuple[str, ...]
    layers: tuple[LayerNumber, ...] = Questions.layers
    speed_ups: tuple[Number, ...] = Questions.speed_ups
    primary_speed_up: Number = Questions.primary_speed_up
    protocols: tuple[str, ...] = Questions.protocols
    resamples: WholeNumber = Questions.resamples
    seed: WholeNumber = Questions.seed
    description: str = ""
    folds: WholeNumber = 5
    losses: tuple[Number, ...] = (0.5, 1.0)
    rates_speed_up: Number = 4.0
    thresholds: ThresholdTable = {}
    ties: str = "half"
    area_range: tuple[Share, ...] = (1 / 3, 1.0)
    deals: WholeNumber | None = None
    promises: StrictBool = True
    target: str | None = None
    held_out: dict[str, str] = {}
    findings: FindingsTable | None = None


EXPECTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}
"""pydantic's names of what went wrong, in the words of a suite file."""


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
    if file.stat().st_size > LARGEST:
        raise InputError(f"{file.name}: expected a suite of at most {LARGEST:,} bytes, found {file.stat().st_size:,}")
    try:
        values = tomllib.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:  # not TOML, not UTF-8, too long a number, too many brackets
        raise InputError(f"{file.name} is not a TOML file: {error}") from None
    return suite_of_values(values, file, fixtures)


def suite_of_values(values: Mapping[str, Any], file: Path, fixtures: Path = FIXTURES) -> Suite:
    """A suite from the keys of its TOML file; ``file`` is where relative cache paths begin."""
    try:
        read = SuiteFile.model_validate(values)
    except ValidationError as error:
        raise InputError(f"{file.name}: {type_problem(error)}") from None

    def path(text: str) -> Path:
        return cache_path(text, file.parent, fixtures)

    name = read.name or file.stem
    caches = tuple(map(path, read.caches))
    asked = {field.name: getattr(read, field.name) for field in dataclasses.fields(Questions)}
    try:
        questions = Questions(**asked)
    except InputError as error:
        raise InputError(f"suite {name!r}: {error}") from None
    return Suite(
        name=name,
        caches=caches,
        signals=read.signals,
        questions=questions,
        description=read.description,
        held_out=(calibration_caches(caches) if "held-out" in read.protocols else {})
        | {path(cache): path(calibration) for cache, calibration in read.held_out.items()},
        findings=None if read.findings is None else Contest(read.findings.subject, read.findings.against),
    )


def type_problem(error: ValidationError) -> str:
    """The first thing that is wrong with the keys of a file or their types, in one clause."""
    problems = error.errors()
    missing = [str(problem["loc"][-1]) for problem in problems if problem["type"] == "missing"]
    surplus = next((problem["loc"] for problem in problems if problem["type"] == "extra_forbidden"), None)
    if surplus is not None:
        near = did_you_mean(str(surplus[-1]), SuiteFile.model_fields)
        return f"unknown key {'.'.join(map(str, surplus))!r}.{near}"
    if missing:
        return f"missing key {', '.join(sorted(missing))}"
    problem = problems[0]
    key = ".".join(part for part in problem["loc"] if isinstance(part, str))
    if problem["type"] == "value_error":
        return f"{key}: {problem['ctx']['error']}"
    return f"{key} must be {EXPECTED.get(problem['type'], problem['msg'])}, found {problem['input']!r}"


def suite_of_caches(caches: Sequence[Path], fixtures: Path = FIXTURES) -> Suite:
    """The paper's questions asked of other caches, for caches named on the command line."""
    paper = load_suite("paper", fixtures)
    name = caches[0].resolve().name if len(caches) == 1 else "caches"
    return dataclasses.replace(
        paper,
        name=name,
        caches=tuple(caches),
        description="",
        held_out=calibration_caches(caches),
        held_out_by_default=True,
    )


def calibration_caches(caches: Sequence[Path]) -> dict[Path, Path]:
    """The calibration caches that lie beside some caches by convention: NAME-calibration beside NAME-dev."""
    beside = {cache: cache.parent / f"{cache.name.removesuffix('-dev')}-calibration" for cache in caches}
    return {
        cache: calibration
        for cache, calibration in beside.items()
        if cache.name.endswith("-dev") and (calibration / "manifest.json").is_file()
    }


def cache_path(text: str, beside: Path, fixtures: Path = FIXTURES) -> Path:
    """Where a suite's cache lies: a bare name means a fixture, unless such a folder is beside the file.

    A URL means the local copy of a cache on an object store, which is made now.
    """
    if "\0" in text:
        raise InputError(f"expected the name or the path of a cache, found {text!r}")
    if is_url(text):
        return fetched_cache(text)
    relative = beside / text
    bare = Path(text).name == text
    return fixtures / "caches" / text if bare and not relative.is_dir() else relative
