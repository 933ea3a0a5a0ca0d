"""A suite: which caches, which signals and which questions make up one run.

Nothing heavy is imported here: listing suites must start at once.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from exitbench.benchmarks.suites.questions import Questions, layers_at, refuse_repeats
from exitbench.errors import InputError, did_you_mean


@dataclass(frozen=True)
class Contest:
    """What the findings of a run are about: one entry against some others, each by its text or its signal's name."""

    subject: str
    against: tuple[str, ...]


def signal_name(text: str) -> str:
    """The name of the signal that a text such as ``cap[alpha=0.1]`` stands for."""
    return text.partition("[")[0]


def entries_named(name: str, entries: Sequence[tuple[str, str]]) -> list[int]:
    """The positions among ``entries``, each a text and a signal, that a name stands for: that text, else that signal.

    >>> entries_named("cap", [("cap", "cap"), ("cap[center=true]", "cap")])
    [0]
    """
    as_written = [number for number, (text, _) in enumerate(entries) if text == name]
    return as_written or [number for number, (_, signal) in enumerate(entries) if signal == name]


def entry_of_subject(name: str, entries: Sequence[tuple[str, str]], where: str) -> int:
    """The position of the entry that a report is to be about; InputError where none of ``entries``, or several, fit.

    >>> entry_of_subject("nsp", [("cap", "cap"), ("nsp[center=true]", "nsp")], "the run")
    1
    """
    named = entries_named(name, entries)
    if not named:
        near = did_you_mean(name, [*dict.fromkeys(part for entry in entries for part in entry)])
        raise InputError(f"expected a signal of {where} as --subject, found {name!r}.{near}")
    if len(named) > 1:
        texts = ", ".join(entries[number][0] for number in named)
        raise InputError(f"expected one signal of {where} as --subject, found {name!r}, which may be any of {texts}")
    return named[0]


@dataclass(frozen=True)
class Suite:
    """One run's worth of questions. Build with ``load_suite`` or ``suite_of_caches``.

    ``held_out`` maps a cache to its calibration cache; with ``held_out_by_default`` such a cache is measured under
    ``held-out`` where the others are cross-fitted. ``findings`` is ``None`` where no findings are written.
    """

    name: str
    caches: tuple[Path, ...]
    signals: tuple[str, ...]
    questions: Questions
    description: str = ""
    held_out: Mapping[Path, Path] = field(default_factory=dict)
    findings: Contest | None = None
    held_out_by_default: bool = False

    def __post_init__(self) -> None:
        try:
            require_consistent(self)
        except InputError as error:
            raise InputError(f"suite {self.name!r}: {error}") from None

    def asking(self, **changes: Any) -> Suite:
        """The same suite with other questions, named as the fields of :class:`Questions`."""
        by_default = self.held_out_by_default and "protocols" not in changes
        questions = dataclasses.replace(self.questions, **changes)
        return dataclasses.replace(self, questions=questions, held_out_by_default=by_default)

    def questions_of(self, cache: Path) -> Questions:
        """What is asked of one cache: of one with a calibration cache, ``held-out`` in the place of ``cross-fit``."""
        if not self.held_out_by_default or cache not in self.held_out:
            return self.questions
        protocols = dict.fromkeys("held-out" if name == "cross-fit" else name for name in self.questions.protocols)
        return dataclasses.replace(self.questions, protocols=tuple(protocols))

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols of all caches, each once."""
        return tuple(dict.fromkeys(name for cache in self.caches for name in self.questions_of(cache).protocols))

    def with_signals(self, signals: tuple[str, ...]) -> Suite:
        """The same suite over other signals; it keeps its findings where each signal they are about is there once."""
        entries = [(text, signal_name(text)) for text in signals]
        contest = self.findings
        if contest is not None:
            # An entry that is written otherwise now is still the same signal's.
            names = [
                name if entries_named(name, entries) else signal_name(name)
                for name in (contest.subject, *contest.against)
            ]
            once = all(len(entries_named(name, entries)) == 1 for name in names)
            contest = Contest(names[0], tuple(names[1:])) if once else None
        return dataclasses.replace(self, signals=signals, findings=contest)

    def layers_of(self, depth: int) -> tuple[int, ...]:
        """The suite's layers in a network of ``depth`` layers, ascending, without repeats.

        Raises InputError for a number that is not an internal layer of that network.
        """
        return layers_at(self.questions.layers, depth)

    def missing_caches(self) -> tuple[Path, ...]:
        """The caches, calibration caches included, that are not on this machine."""
        needed = dict.fromkeys((*self.caches, *self.held_out.values()))
        return tuple(path for path in needed if not (path / "manifest.json").is_file())

    def require_caches(self) -> None:
        """Raise InputError naming every cache that is not there."""
        missing = self.missing_caches()
        if missing:
            names = ", ".join(path.name for path in missing)
            folders = ", ".join(sorted({str(path.parent) for path in missing}))
            raise InputError(
                f"suite {self.name!r}: {len(missing)} of {len(self.caches)} caches are missing: {names} "
                f"(no manifest.json under {folders})"
            )

    def to_json(self) -> dict[str, Any]:
        """Plain values for ``run.json``, with the keys of a suite file; caches by name, since paths differ."""
        questions = dataclasses.asdict(self.questions)
        questions["layers"] = [layer if isinstance(layer, int) else str(layer) for layer in self.questions.layers]
        questions["thresholds"] = {name: list(listed) for name, listed in self.questions.thresholds.items()}
        values = {
            "name": self.name,
            "caches": [path.name for path in self.caches],
            "signals": self.signals,
            **questions,
            "protocols": self.protocols,
            "description": self.description,
            "held_out": {cache.name: calibration.name for cache, calibration in self.held_out.items()},
            "findings": None if self.findings is None else dataclasses.asdict(self.findings),
        }
        return {key: list(value) if isinstance(value, tuple) else value for key, value in values.items()}


def require_consistent(suite: Suite) -> None:
    """Raise InputError for a suite whose values make no sense together."""
    if not suite.name or any(sign in suite.name for sign in "/\\\0"):
        raise InputError("name must be text without slashes and NUL")
    if suite.name in (".", ".."):
        raise InputError("name must be that of a folder of its own")
    for key, values in (("caches", suite.caches), ("signals", suite.signals)):
        if not values:
            raise InputError(f"{key} must not be empty")
        refuse_repeats(key, values)
    names = [path.name for path in suite.caches]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise InputError(f"two caches share the name {', '.join(twice)}; results could not tell them apart")
    if "held-out" in suite.questions.protocols:
        bare = [path.name for path in suite.caches if path not in suite.held_out]
        if bare:
            raise InputError(f"protocol held-out needs a calibration cache in [held_out] for {', '.join(bare)}")
    if suite.findings is not None:
        if not suite.findings.against:
            raise InputError("findings: against must not be empty")
        refuse_repeats("findings", (suite.findings.subject, *suite.findings.against))
    for cache, calibration in suite.held_out.items():
        if cache not in suite.caches:
            raise InputError(f"held_out names {cache.name}, which is not among the caches")
        if cache.resolve() == calibration.resolve():
            raise InputError(f"held_out: {cache.name} cannot be its own calibration cache")
