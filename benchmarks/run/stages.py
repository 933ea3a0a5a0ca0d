"""The units of a run over an executor: scores, measures and comparisons of each cache, whatever the others are at.

A cache's signals are measured once it is scored, and compared once they are measured, so that a slow cache holds up
nobody but itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from exitbench.benchmarks.run.conformance_record import OWN
from exitbench.benchmarks.run.plan import CacheUnits
from exitbench.benchmarks.run.units import ScoreUnit, code_digest
from exitbench.benchmarks.scoring.score_store import has_failed_signals
from exitbench.errors import InputError
from exitbench.executors.executor import Executor, Performance, Step
from exitbench.executors.unit import Failure, Unit, is_done
from exitbench.progress import ProgressBar
from exitbench.signals.contract.signal import ExitSignal

LITTLE = 64 * 2**20
"""Bytes of tensors that one process scores in less time than the others need to import torch."""
SEEN = "seen"
"""A file by which workers show that they see a folder."""


def perform_stages(units: Sequence[CacheUnits], executor: Executor, *, takes_long: bool) -> list[Failure]:
    """Do all units; what rests on a failed unit is left out and not reported again.

    ``takes_long`` is what :func:`may_take_long` says of the signals.
    """
    for cache in units:
        if has_failed_signals(cache.score.folder):  # at an earlier start: they get another chance
            shutil.rmtree(cache.score.folder)
        if not all(map(is_done, cache.measures)):  # what was compared are fewer signals than there may be now
            shutil.rmtree(cache.compare.folder, ignore_errors=True)
    here = scores_here([cache.score for cache in units], executor, takes_long=takes_long)
    steps = run_steps(units, score_here=here)
    with ProgressBar("run", len(steps), transient=True) as bar:

        def finished(unit: Unit) -> None:
            bar.advance(note=unit.label)

        return Performance(executor, steps, finished).wait()


def run_steps(units: Sequence[CacheUnits], *, score_here: bool) -> list[Step]:
    """The steps of a run, stage by stage, which is the order that failures are told in."""
    # The largest cache first: begun last, it would keep one process busy while the others wait.
    largest_first = sorted((cache.score for cache in units), key=bytes_to_read, reverse=True)
    scores = [Step(unit, here=score_here) for unit in largest_first]
    measures = [
        Step(unit, after=(cache.score.folder,), wanted=partial(is_done, cache.score))
        for cache in units
        for unit in cache.measures
    ]
    comparisons = [
        Step(cache.compare, after=(cache.score.folder, *cache.compare.measured), wanted=partial(is_measured, cache))
        for cache in units
        if cache.compared
    ]
    return [*scores, *measures, *comparisons]


def is_measured(cache: CacheUnits) -> bool:
    """Whether there is anything to compare on a cache."""
    return is_done(cache.score) and any(map(is_done, cache.measures))


def may_take_long(signals: Sequence[ExitSignal]) -> bool:
    """Whether scoring may take longer than reading: something is fitted, or nothing is known of a signal's speed."""
    return any(signal.needs_fit or not type(signal).__module__.startswith(OWN) for signal in signals)


def scores_here(units: Sequence[ScoreUnit], executor: Executor, *, takes_long: bool) -> bool:
    """Whether this process scores, which knows the signals already: there is little to read, and that is all.

    Nothing but scoring needs torch, so a process that never scores starts two seconds earlier. Fits take minutes, and
    so may a signal from elsewhere on one of the caches, which would hold up all others here. A single cache keeps one
    process busy, so it may as well be this one.
    """
    if executor.is_remote:
        return False
    return len(units) == 1 or (not takes_long and sum(map(bytes_to_read, units)) < LITTLE)


def bytes_to_read(unit: ScoreUnit) -> int:
    """The bytes of tensors in a unit's cache."""
    return sum(file.stat().st_size for file in unit.cache.glob("**/*.safetensors"))


def require_same_world(executor: Executor, folder: Path, directories: Sequence[str]) -> None:
    """Raise InputError where workers elsewhere see other files than this process, or run another exitbench."""
    if not executor.is_remote:
        return
    own = code_digest(directories)
    if any(code != own for code in executor.ask_all(code_digest, directories)):
        raise InputError("expected the workers to have the same exitbench and signals as this process, found others")
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SEEN).touch()
    try:
        if not all(executor.ask_all(Path.is_file, folder / SEEN)):
            raise InputError(f"expected all workers to see {folder}, found some that do not: give a folder they share")
    finally:
        (folder / SEEN).unlink(missing_ok=True)
