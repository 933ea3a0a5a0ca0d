"""The units of a run over an executor: scores, measures and comparisons of each cache, whatever the others are at.

A cache's signals are measured once it is scored, and compared once they are measured, so that a slow cache holds up
nobody but itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from exitbench.benchmarks.run.plan import CacheUnits
from exitbench.benchmarks.run.units import ScoreUnit, code_digest
from exitbench.benchmarks.scoring.score_store import has_failed_signals
from exitbench.errors import InputError
from exitbench.executors.executor import Executor, Performance, Step
from exitbench.executors.unit import Failure, Unit, is_done
from exitbench.progress import ProgressBar

LITTLE = 64 * 2**20
"""Bytes of tensors that one process scores in less time than the others need to import torch."""
SEEN = "seen"
"""A file by which workers show that they see a folder."""


def perform_stages(units: Sequence[CacheUnits], executor: Executor, *, learns: bool) -> list[Failure]:
    """Do all units; what rests on a failed unit is left out and not reported again.

    ``learns`` says that scoring begins with fits.
    """
    for cache in units:
        if has_failed_signals(cache.score.folder):  # at an earlier start: they get another chance
            shutil.rmtree(cache.score.folder)
        if not all(map(is_done, cache.measures)):  # what was compared are fewer signals than there may be now
            shutil.rmtree(cache.compare.folder, ignore_errors=True)
    here = scores_here([cache.score for cache in units], executor, learns=learns)
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


def scores_here(units: Sequence[ScoreUnit], executor: Executor, *, learns: bool) -> bool:
    """Whether this process scores, which knows the signals already: there is little to read and nothing to fit.

    Nothing but scoring needs torch, so a process that never scores starts two seconds earlier. Fits take minutes. A
    single cache keeps one process busy, so it may as well be this one.
    """
    if executor.is_remote:
        return False
    return len(units) == 1 or (not learns and sum(map(bytes_to_read, units)) < LITTLE)


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
