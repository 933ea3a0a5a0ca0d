"""Compute a suite again and compare it with its baseline.

Values do not depend on the number of resamples, so the first computation draws as few as there may be. Only when a
number has moved is the suite computed once more, with enough resamples for the standard errors that the moves are
measured against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from exitbench.benchmarks.baselines.baseline_table import (
    Baseline,
    Move,
    baseline_of,
    moves,
    read_baseline,
    with_errors,
    write_baseline,
)
from exitbench.benchmarks.baselines.scratch_folder import scratch_folder
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite import Suite
from exitbench.errors import InputError
from exitbench.executors.executor import Executor

FEWEST_RESAMPLES = 2
ERROR_RESAMPLES = 50
"""Enough for a standard error within about a tenth of itself."""


@dataclass(frozen=True)
class Checked:
    """The outcome for one suite: ``problems`` are lines that say why it could not be computed whole.

    ``baseline`` is what the file holds (``None`` if it is still to be written), ``current`` what was computed.
    """

    suite: str
    file: Path
    baseline: Baseline | None
    current: Baseline
    moves: tuple[Move, ...]
    problems: tuple[str, ...] = ()

    @property
    def good(self) -> bool:
        return not self.moves and not self.problems

    @property
    def is_new(self) -> bool:
        """Whether there was nothing to compare with."""
        return self.baseline is None

    def update(self) -> None:
        """Write what was computed as the new baseline."""
        write_baseline(self.file, self.current)


def check_suite(
    suite: Suite,
    file: Path,
    *,
    directories: Sequence[Path | str] = (),
    executor: Executor | None = None,
    must_exist: bool = True,
) -> Checked:
    """Compute the suite in a temporary folder and compare it with the baseline in ``file``.

    Raises InputError for a baseline that cannot be read, or is not there although it ``must_exist``. A cache or signal
    that is missing, or that fails, is a problem of the outcome; then nothing is compared.
    """
    baseline = read_baseline(file) if must_exist or file.exists() else None
    rows, problems = recompute(suite, directories, executor, FEWEST_RESAMPLES)
    if problems:
        return Checked(suite.name, file, baseline, {}, (), tuple(problems))
    changes = moves(baseline or {}, rows)
    if any(move.kind == "moved" for move in changes):
        again = errors_suite(suite, changes)
        measured, _ = recompute(again, directories, executor, min(suite.questions.resamples, ERROR_RESAMPLES))
        changes = with_errors(changes, measured)
    return Checked(suite.name, file, baseline, baseline_of(rows, baseline), tuple(changes))


def recompute(
    suite: Suite, directories: Sequence[Path | str], executor: Executor | None, resamples: int
) -> tuple[list[Row], list[str]]:
    """The results of a suite with few resamples, and one line for everything that could not be computed."""
    with scratch_folder() as folder:
        try:
            few = suite.asking(resamples=resamples)
            outcome = run_suite(few, folder, executor=executor, directories=directories, tables=("results",))
        except InputError as error:
            return [], [str(error)]
        return outcome.files.rows(), [f"failed: {failure.label}: {failure.reason}" for failure in outcome.failures]


def errors_suite(suite: Suite, changes: Sequence[Move]) -> Suite:
    """The suite on the caches where something moved; on all of them when an average did."""
    names = {str(move.key[0]) for move in changes if move.kind == "moved"}
    kept = suite.caches if "" in names else tuple(path for path in suite.caches if path.name in names)
    return replace(
        suite, caches=kept, held_out={path: calibration for path, calibration in suite.held_out.items() if path in kept}
    )
