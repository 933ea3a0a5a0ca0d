"""Stage one, per cache: score all configurations of all signals in one pass and leave them as files."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.protocols.splits import Part, parts_of
from exitbench.benchmarks.scoring.configuration import Configuration, describe
from exitbench.benchmarks.scoring.score_cache import fitted, score_each
from exitbench.benchmarks.scoring.score_store import PLAIN, Samples, Side, save_meta, save_samples, save_scores
from exitbench.benchmarks.suites.questions import Questions
from exitbench.cache import Cache
from exitbench.errors import InputError, one_line
from exitbench.signals.contract.signal import ExitSignal


def write_scores(
    folder: Path, cache: Cache, signals: Sequence[ExitSignal], questions: Questions, calibration: Cache | None = None
) -> None:
    """Score ``signals`` (each one configuration) and write what ``ScoredCache`` reads.

    A signal that cannot be scored is noted with its problem and stops no other. ``calibration`` is the cache that
    the held-out protocol chooses on.
    """
    sides: dict[Side, Cache] = {"test": cache}
    if "held-out" in questions.protocols:
        if calibration is None:
            raise InputError(f"cache {cache.name}: protocol held-out needs a calibration cache")
        check_same_network(cache, calibration)
        sides["calibration"] = calibration
    facts = [describe(signal, cache.layers) for signal in signals]
    order = {side: np.argsort(one.ids, kind="stable") for side, one in sides.items()}
    for side, one in sides.items():
        rows = order[side]
        save_samples(
            folder,
            side,
            Samples(one.ids[rows], one.labels[rows], one.predictions()[:, rows], one.manifest.task.metric),
        )
    usable = [number for number, one in enumerate(facts) if not one.problem]
    plain = [number for number in usable if not facts[number].learns]
    for side, one in sides.items():
        _score_side(folder, one, order[side], side, {number: signals[number] for number in plain}, PLAIN, facts)
    for number in usable:
        if facts[number].learns:
            _score_learner(folder, number, signals[number], sides, order, questions, facts)
    names = {
        "cache": cache.name,
        "model": cache.manifest.model.name,
        "task": cache.manifest.task.name,
        "split": cache.manifest.split,
        "metric": cache.manifest.task.metric,
    }
    save_meta(folder, names, facts)


def _score_side(
    folder: Path,
    cache: Cache,
    order: NDArray[np.intp],
    side: Side,
    signals: Mapping[int, ExitSignal],
    variant: str,
    facts: list[Configuration],
) -> None:
    """Score some configurations on one side; a failure is put into ``facts``."""
    outcomes = score_each(cache, list(signals.values()))
    for number, outcome in zip(signals, outcomes, strict=True):
        if isinstance(outcome, InputError):
            facts[number] = dataclasses.replace(facts[number], problem=one_line(outcome))
        else:
            save_scores(folder, number, variant, side, outcome[:, order])


def _score_learner(
    folder: Path,
    number: int,
    signal: ExitSignal,
    sides: Mapping[Side, Cache],
    order: Mapping[Side, NDArray[np.intp]],
    questions: Questions,
    facts: list[Configuration],
) -> None:
    """Fit and score a signal that learns, once for every part of every protocol."""
    test = sides["test"]
    ids = test.ids[order["test"]]
    for protocol in questions.protocols:
        size = sides["calibration"].rows if protocol == "held-out" else None
        for part in parts_of(protocol, ids, seed=questions.seed, count=questions.folds, calibration=size):
            try:
                ready = fitted(signal, sides[part.train_side], training_rows(part, order[part.train_side]))
            except InputError as error:  # the other signals go on
                facts[number] = dataclasses.replace(facts[number], problem=one_line(error))
                return
            for side in dict.fromkeys(("test", part.train_side)):
                _score_side(folder, sides[side], order[side], side, {number: ready}, part.variant, facts)


def training_rows(part: Part, order: NDArray[np.intp]) -> NDArray[np.intp]:
    """The rows of the cache that a part trains on, in the order of ids, so that sums do not see the cache's order."""
    return order[part.train]


def check_same_network(cache: Cache, calibration: Cache) -> None:
    """Raise InputError unless both caches come from one network and task."""
    for what, mine, theirs in (
        ("model", cache.manifest.model.name, calibration.manifest.model.name),
        ("layers", cache.layers, calibration.layers),
        ("classes", cache.manifest.task.classes, calibration.manifest.task.classes),
        ("task", cache.manifest.task.name, calibration.manifest.task.name),
    ):
        if mine != theirs:
            raise InputError(
                f"held-out: {cache.name} and its calibration cache {calibration.name} differ in {what}: "
                f"{mine} and {theirs}"
            )
