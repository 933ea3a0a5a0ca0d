"""A signal in a JSON file, as ``to_json`` or ``exitbench threshold --json`` writes it, checked value by value."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from exitbench.errors import InputError

if TYPE_CHECKING:
    from exitbench.signals.contract.signal import ExitSignal
    from exitbench.signals.registry.registry import Registry


def read_signal(path: Path, registry: Registry) -> tuple[ExitSignal, float | None]:
    """The signal of the file with what it learned, and the threshold if there is one beside it."""
    from exitbench.signals.registry.exit_policy import is_number, read_object, stored_signal

    content = read_object(path, "a signal")
    threshold = None
    if isinstance(content.get("signal"), dict):
        # What `exitbench threshold --json` prints: the signal, its threshold, and what to expect of both.
        content, threshold = content["signal"], content.get("threshold")
        if threshold is not None and not is_number(threshold):
            raise InputError(f"expected a number as threshold in {path}, found {threshold!r}")
    return stored_signal(path, content, registry), threshold
