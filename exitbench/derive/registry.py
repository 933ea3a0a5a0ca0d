"""Methods found in files: those of ``methods/`` and of directories that the user names, by their text form."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exitbench.derive import methods
from exitbench.derive.contract import AnswerMethod
from exitbench.signals.registry.found_classes import FoundClasses


def load_methods(directories: Sequence[Path | str] = ()) -> FoundClasses[AnswerMethod]:
    """All methods of this package and of each directory; a file of the user's that does not load is an InputError."""
    return FoundClasses(AnswerMethod, methods, directories)  # type: ignore[type-abstract]
