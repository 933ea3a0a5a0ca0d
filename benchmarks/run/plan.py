"""The plan of a run: the suite's signals made, and the units of its three stages."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from exitbench.benchmarks.run.units import MeasureUnit, PairUnit, ScoreUnit, code_digest
from exitbench.benchmarks.scoring.configuration import grid_text
from exitbench.benchmarks.suites.questions import Questions, check_thresholds_exist
from exitbench.benchmarks.suites.suite import Suite
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.discovery import load_registry
from exitbench.signals.registry.registry import Registry
from exitbench.workers import digest


@dataclass(frozen=True)
class Plan:
    """A suite with its signals made: entries as texts of configurations, in the suite's order."""

    suite: Suite
    questions: Questions
    directories: tuple[str, ...]
    entries: tuple[tuple[ExitSignal, ...], ...]

    @property
    def configurations(self) -> tuple[ExitSignal, ...]:
        """Every configuration once."""
        return tuple({signal.text: signal for entry in self.entries for signal in entry}.values())

    @property
    def groups(self) -> dict[str, tuple[tuple[int, ...], ...]]:
        """Registry name to the configurations (positions) of each of its entries."""
        position = {signal.text: number for number, signal in enumerate(self.configurations)}
        found: dict[str, tuple[tuple[int, ...], ...]] = {}
        for entry in self.entries:
            group = tuple(position[signal.text] for signal in entry)
            found[entry[0].name] = (*found.get(entry[0].name, ()), group)
        return found

    @property
    def names(self) -> list[tuple[str, str]]:
        """(signal, parameters) of every entry, as the results call it."""
        return [(entry[0].name, grid_text(signal.parameters_text for signal in entry)) for entry in self.entries]


def plan_run(suite: Suite, directories: Sequence[Path | str] = (), registry: Registry | None = None) -> Plan:
    """Make the suite's signals; raises InputError for unknown ones and for entries that are the same."""
    registry = registry or load_registry(directories)
    entries = tuple(tuple(registry.expand(text)) for text in suite.signals)
    plan = Plan(suite, suite.questions, tuple(str(Path(one).resolve()) for one in directories), entries)
    names = plan.names
    for number, name in enumerate(names):
        if name in names[:number]:
            raise InputError(f"suite {suite.name!r} lists the same signal twice: {suite.signals[number]}")
    for key in suite.questions.thresholds:
        if key != "*":
            registry.get(key)
    check_thresholds_exist(suite.questions.thresholds, plan.configurations)
    return plan


@dataclass(frozen=True)
class Stages:
    """All units of a run; measure units are grouped by cache, in the order of the suite."""

    scores: tuple[ScoreUnit, ...]
    measures: tuple[tuple[MeasureUnit, ...], ...]
    pairs: tuple[PairUnit, ...]
    manifest_sha256: tuple[str, ...]


def stages_of(plan: Plan, folder: Path) -> Stages:
    """The units of a run; equal inputs have equal folders."""
    code = code_digest(plan.directories)
    questions = asdict(plan.questions)
    texts = tuple(signal.text for signal in plan.configurations)
    scores, measures, pairs, hashes = [], [], [], []
    for path in plan.suite.caches:
        calibration = plan.suite.held_out.get(path) if "held-out" in plan.suite.questions.protocols else None
        sha = manifest_sha256(path)
        inputs: dict[str, Any] = {"code": code, "manifest": sha, "questions": questions, "cache": path.name}
        inputs["calibration"] = None if calibration is None else manifest_sha256(calibration)
        scored = ScoreUnit(
            folder / f"score-{digest(inputs | {'signals': texts})}",
            f"{path.name}: scores", path.absolute(), calibration, texts, plan.directories, plan.questions,
        )  # fmt: skip
        own = tuple(
            MeasureUnit(
                folder / f"measure-{digest(inputs | {'entries': [[texts[one] for one in group] for group in groups]})}",
                f"{path.name}: {name}",
                scored.folder,
                groups,
                plan.questions,
            )
            for name, groups in plan.groups.items()
        )
        folders = tuple(unit.folder for unit in own)
        scores.append(scored)
        measures.append(own)
        pairs.append(
            PairUnit(folder / f"pairs-{digest(inputs | {'measured': [one.name for one in folders]})}",
                     f"{path.name}: comparisons", scored.folder, folders, plan.questions)
        )  # fmt: skip
        hashes.append(sha)
    return Stages(tuple(scores), tuple(measures), tuple(pairs), tuple(hashes))


def manifest_sha256(path: Path) -> str:
    """The sha256 of a cache's manifest, which pins every other file of it."""
    return hashlib.sha256((path / "manifest.json").read_bytes()).hexdigest()
