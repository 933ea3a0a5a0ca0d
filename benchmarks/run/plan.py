"""The plan of a run: the suite's signals made, and the units of its three stages on every cache."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exitbench.benchmarks.run.across_caches.average_errors import SOURCES
from exitbench.benchmarks.run.units import CompareUnit, MeasureUnit, ScoreUnit, code_digest
from exitbench.benchmarks.scoring.configuration import grid_text
from exitbench.benchmarks.suites.questions import check_thresholds_exist
from exitbench.benchmarks.suites.suite import Suite, entries_named
from exitbench.cache import Cache, Target
from exitbench.errors import InputError, did_you_mean
from exitbench.executors.unit import digest
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.registry import Registry


@dataclass(frozen=True)
class Plan:
    """Entries with their signals made, in the suite's order; each entry lists its configurations."""

    entries: tuple[tuple[ExitSignal, ...], ...]

    @property
    def configurations(self) -> tuple[ExitSignal, ...]:
        """Every configuration once."""
        return tuple({signal.text: signal for entry in self.entries for signal in entry}.values())

    @property
    def groups(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Registry name to the configurations (positions) of each of its entries."""
        position = {signal.text: number for number, signal in enumerate(self.configurations)}
        groups: dict[str, tuple[tuple[int, ...], ...]] = {}
        for entry in self.entries:
            group = tuple(position[signal.text] for signal in entry)
            groups[entry[0].name] = (*groups.get(entry[0].name, ()), group)
        return groups

    @property
    def names(self) -> list[tuple[str, str]]:
        """(signal, parameters) of every entry, as the results call it."""
        return [(entry[0].name, grid_text(signal.parameters_text for signal in entry)) for entry in self.entries]


def plan_run(suite: Suite, registry: Registry) -> Plan:
    """Make the suite's signals; raises InputError for unknown ones and for entries that are the same."""
    plan = Plan(tuple(tuple(registry.expand(text)) for text in suite.signals))
    names = plan.names
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"suite {suite.name!r} lists the same signal twice: {suite.signals[number]}")
    check_findings(suite, [signal for signal, _ in names])
    for key in suite.questions.thresholds:
        if key != "*":
            registry.get(key)
    check_thresholds_exist(suite.questions.thresholds, plan.configurations)
    return plan


def check_findings(suite: Suite, signals: Sequence[str]) -> None:
    """Raise InputError for findings about a signal that is not exactly once among those of the suite."""
    if suite.findings is None:
        return
    for role, names in (("subject", (suite.findings.subject,)), ("against", suite.findings.against)):
        for name in names:
            count = len(entries_named(name, list(zip(suite.signals, signals, strict=True))))
            if count != 1:
                problem = "is listed more than once" if count else "is not among them"
                raise InputError(
                    f"suite {suite.name!r}: expected findings.{role} to name one of the signals "
                    f"{', '.join(dict.fromkeys(signals))}, found {name!r}, which {problem}."
                    f"{did_you_mean(name, signals) if not count else ''}"
                )


@dataclass(frozen=True)
class CacheUnits:
    """The units of one cache, in the order they are done; ``compared`` says that all signals are among them."""

    score: ScoreUnit
    measures: tuple[MeasureUnit, ...]
    compare: CompareUnit
    manifest_sha256: str
    compared: bool = True


def cache_units(
    suite: Suite,
    plan: Plan,
    directories: Sequence[str],
    folder: Path,
    tables: Sequence[str],
    sharing: Collection[str] = (),
) -> list[CacheUnits]:
    """The units of a run, cache by cache; equal inputs have equal folders below ``folder``.

    Those of the caches named in ``sharing`` also leave what their errors come from.
    """
    texts = tuple(signal.text for signal in plan.configurations)
    code = code_digest(directories)
    units = []
    for path in suite.caches:
        questions = suite.questions_of(path)
        wanted = (*tables, SOURCES) if path.name in sharing else tuple(tables)
        calibration = suite.held_out.get(path) if "held-out" in questions.protocols else None
        inputs: dict[str, Any] = {
            "code": code,
            "tables": list(wanted),
            "questions": asdict(questions),
            "manifest": manifest_sha256(path),
            "cache": path.name,
        }
        inputs["calibration"] = None if calibration is None else manifest_sha256(calibration)
        score = ScoreUnit(
            folder=folder / f"score-{digest(inputs | {'signals': texts})}",
            label=f"{path.name}: scores",
            cache=path.absolute(),
            calibration=None if calibration is None else calibration.absolute(),
            signals=texts,
            directories=tuple(directories),
            questions=questions,
        )
        measures = tuple(
            MeasureUnit(
                folder=folder
                / f"measure-{digest(inputs | {'entries': [[texts[n] for n in group] for group in groups]})}",
                label=f"{path.name}: {name}",
                scored=score.folder,
                groups=groups,
                questions=questions,
                tables=wanted,
            )
            for name, groups in plan.groups.items()
        )
        measured = tuple(unit.folder for unit in measures)
        compare = CompareUnit(
            folder=folder / f"compare-{digest(inputs | {'measured': [path.name for path in measured]})}",
            label=f"{path.name}: comparisons",
            scored=score.folder,
            measured=measured,
            questions=questions,
            tables=wanted,
        )
        units.append(CacheUnits(score, measures, compare, inputs["manifest"]))
    return units


def refuse_signals_that_run_nowhere(
    texts: Sequence[str], caches: Sequence[Path], registry: Registry, target: Target | None = None
) -> None:
    """Raise InputError for a named signal that can run on none of the named caches, or learn nothing from any.

    A damaged cache refuses nothing here: the run names it, and goes on with the others.
    """
    from exitbench.benchmarks.scoring.calibration_layers import cannot_run

    opened = []
    for path in caches:
        try:
            opened.append(Cache(path))
        except InputError:
            return
    for text in texts:
        signals = registry.expand(text)
        reasons = [
            cannot_run(cache, signal) or cannot_learn(cache, signal, target) for signal in signals for cache in opened
        ]
        if reasons and all(reasons):
            others = "" if len(opened) == 1 else f", and on none of the other {len(opened) - 1} caches"
            raise InputError(f"{reasons[0]}{others}")


def cannot_learn(cache: Cache, signal: ExitSignal, target: Target | None) -> str:
    """Why all samples of a cache cannot teach a signal anything; empty where they can, or it learns nothing."""
    import numpy as np

    from exitbench.benchmarks.scoring.score_cache import without_untaught_layers
    from exitbench.signals.contract.learned_signal import UntaughtError

    if not signal.needs_fit:
        return ""
    try:
        without_untaught_layers(signal, cache, np.arange(cache.rows), target=target)
    except UntaughtError as error:
        return f"cache {cache.name}: {error}"
    except InputError:  # the run itself says what is wrong
        return ""
    return ""


def manifest_sha256(path: Path) -> str:
    """The sha256 of a cache's manifest, which pins every other file of it."""
    return hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
