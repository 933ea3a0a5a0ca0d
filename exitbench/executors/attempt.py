"""One attempt at a unit by a worker of a cluster, which others may be at as well.

A worker that was only out of reach may still be writing when the scheduler gives its unit to another one, so each
attempt has a folder of its own, which gets the unit's name once it is whole: whoever comes second finds the work done.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from exitbench.errors import InputError
from exitbench.executors.unit import Failure, failure_of, is_done, work_and_sign


@dataclass(frozen=True)
class Refusal(Failure):
    """A unit that the system refused, which it may not do on another machine, or a moment later."""


def perform_anywhere(unit: Any) -> Failure | None:
    """Do one unit in a folder of this attempt, and give that its name unless another attempt was faster.

    No exception is raised, of which Dask's workers would tell the terminal.
    """
    if is_done(unit):
        return None
    attempt = replace(unit, folder=unit.folder.with_name(f".{unit.folder.name}.{uuid.uuid4().hex[:8]}"))
    try:
        # Not its parents: a run that has been given up takes them away.
        attempt.folder.mkdir()
        work_and_sign(attempt)
        try:
            attempt.folder.rename(unit.folder)
        except OSError:
            if not is_done(unit):
                raise
    except (OSError, MemoryError) as error:
        failure = failure_of(unit, error)
        return Refusal(failure.label, failure.reason)
    except Exception as error:  # whatever a plug-in raises must not stop the other units
        return failure_of(unit, error)
    finally:
        shutil.rmtree(attempt.folder, ignore_errors=True)
    return None


def answer_or_error(function: Callable[..., Any], *arguments: Any) -> tuple[Any, Exception | None]:
    """A function's answer, or what a user or the system has caused instead, without a word of Dask's on that."""
    try:
        return function(*arguments), None
    except (InputError, OSError) as error:
        return None, error


def remove_attempts(unit: Any) -> None:
    """Remove what attempts that were ended have left of a unit; for a caller who knows that none is going on."""
    for left in unit.folder.parent.glob(f".{unit.folder.name}.*"):
        shutil.rmtree(left, ignore_errors=True)
