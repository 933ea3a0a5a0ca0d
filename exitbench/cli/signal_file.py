"""A signal in a JSON file, as ``to_json`` or ``exitbench threshold --json`` writes it, checked value by value."""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exitbench.errors import InputError

if TYPE_CHECKING:
    from exitbench.signals.contract.signal import ExitSignal
    from exitbench.signals.registry.registry import Registry


def read_signal(path: Path, registry: Registry) -> tuple[ExitSignal, float | None]:
    """The signal of the file with what it learned, and the threshold if there is one beside it."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"expected a signal as JSON in {path}, found {str(error.strerror).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected a signal as JSON in {path}, found: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"expected a JSON object in {path}, found {type(content).__name__}")
    threshold = None
    if isinstance(content.get("signal"), dict):
        # What `exitbench threshold --json` prints: the signal, its threshold, and what to expect of both.
        content, threshold = content["signal"], content.get("threshold")
        if threshold is not None and not fits(threshold, float):
            raise InputError(f"expected a number as threshold in {path}, found {threshold!r}")
    signal = registry.from_json(content)
    hints = typing.get_type_hints(type(signal))
    for name in content.get("learned") or {}:
        if not fits(getattr(signal, name), hints[name]):
            expected = str(hints[name]).removesuffix(" | None")
            raise InputError(
                f"{path}: expected {expected} as {name} of signal {signal.name}, found {content['learned'][name]!r}"
            )
    return signal, threshold


def fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is what an annotation says; what JSON cannot hold is not judged."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if origin is tuple and parts[1:] == (Ellipsis,):
        return isinstance(value, tuple) and all(fits(item, parts[0]) for item in value)
    if hint in (float, int):
        return isinstance(value, (int, float) if hint is float else int) and not isinstance(value, bool)
    plain = origin or hint
    return isinstance(value, plain) if plain in (bool, str, types.NoneType, tuple) else True
