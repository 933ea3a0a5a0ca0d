"""An exit policy as a file, ``policy.json``: the signal with what it learned, its thresholds, and what they rest on.

Plain JSON and nothing else: it can be read from anyone, and executes nothing. The signal is looked up by its name among
those that are installed; one from a file of your own must be named when the policy is read.
"""

from __future__ import annotations

import hashlib
import json
import math
import stat
import sys
import types
import typing
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from exitbench.atomic_files import write_text
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.registry import Registry

SCHEMA = 2
"""Policies of schema 1 knew the heads of their network and not its encoder."""

LARGEST = 1 << 28
"""The most bytes of a file that is read: a bank of features may be large, a stranger's file must not fill memory."""

MOST_LAYERS = 10_000
"""As many as a cache may have."""

Threshold = float | list[float | None] | None
"""One for all layers, or one for every internal layer (``None`` where nothing exits); ``None`` is "do not exit"."""


@dataclass(frozen=True)
class PolicyModel:
    """Which network a policy is for: what shapes it, a digest of all its heads, and its ``revision``.

    The revision stands for all weights, encoder included, where the cache was collected from a network of exitbench.
    ``heads``, ``revision``, ``pooling`` and ``pooler`` are empty where the cache does not know them.
    """

    name: str
    layers: int
    classes: tuple[str, ...]
    heads: str
    revision: str = ""
    pooling: str = ""
    pooler: str = ""


@dataclass(frozen=True)
class CalibrationExits:
    """Where calibration rows exited (``exit_layers`` [rows], from 1) and their scores there, none at the last layer."""

    exit_layers: tuple[int, ...]
    scores: tuple[float | None, ...]


@dataclass(frozen=True)
class ExitPolicy:
    """A signal with its threshold for one network; ``guarantee`` and ``expected`` are as ``threshold --json`` has them.

    ``note`` says what kind of statement ``expected`` is.
    """

    signal: ExitSignal
    threshold: Threshold
    model: PolicyModel
    calibration: CalibrationExits
    guarantee: Mapping[str, Any] | None
    expected: Mapping[str, Any]
    note: str = ""

    def layer_thresholds(self) -> float | tuple[float, ...]:
        """The threshold, or one for every internal layer, infinite where nothing passes it."""
        never = -math.inf if self.signal.exits_when in ("<", "<=") else math.inf
        if self.threshold is None:
            return never
        if isinstance(self.threshold, list):
            return tuple(never if level is None else level for level in self.threshold)
        return self.threshold

    def to_json(self) -> dict[str, Any]:
        """Plain values, in the order of a reader's questions."""
        return {
            "schema": SCHEMA,
            "signal": self.signal.to_json(),
            "exits_when": self.signal.exits_when,
            "threshold": self.threshold,
            "model": asdict(self.model) | {"classes": list(self.model.classes)},
            "guarantee": None if self.guarantee is None else dict(self.guarantee),
            "note": self.note,
            "expected": dict(self.expected),
            "calibration": {name: list(values) for name, values in asdict(self.calibration).items()},
        }


def heads_digest(weights: Sequence[Tensor], bias: Tensor) -> str:
    """A sha256 of all heads: ``weights`` [classes, width] of every layer and ``bias`` [layers, classes], float32."""
    digest = hashlib.sha256()
    for tensor in (*weights, bias):
        digest.update(json.dumps(list(tensor.shape)).encode())
        digest.update(tensor.detach().cpu().float().contiguous().numpy().astype("<f4").tobytes())
    return digest.hexdigest()


def write_policy(path: Path, policy: ExitPolicy) -> None:
    """Write ``policy.json``, whole or not at all."""
    write_text(path, json.dumps(policy.to_json(), indent=1, allow_nan=False) + "\n")


def read_policy(path: Path, registry: Registry) -> ExitPolicy:
    """A policy from anyone's file, checked value by value; an InputError says what is wrong with it."""
    content = read_object(path, "a policy")
    if content.get("schema") != SCHEMA:
        old = ", which does not say which encoder it is for: write it again with `exitbench threshold --out`"
        schema = repr(content.get("schema"))
        raise InputError(f"{path}: expected a policy of schema {SCHEMA}, found {schema}{old if schema == '1' else ''}")
    signal = stored_signal(path, part(path, content, "signal"), registry)
    model = part(path, content, "model")
    texts = ("name", "heads", "revision", "pooling", "pooler")
    for name, kind in (("layers", int), ("classes", list), *((text, str) for text in texts)):
        if not isinstance(model.get(name), kind) or isinstance(model.get(name), bool):
            raise InputError(f"{path}: expected {kind.__name__} as {name} of the model, found {model.get(name)!r}")
    if not 2 <= model["layers"] <= MOST_LAYERS:
        raise InputError(f"{path}: expected 2..{MOST_LAYERS} layers, found {model['layers']!s:.12}")
    if not all(isinstance(name, str) for name in model["classes"]):
        raise InputError(f"{path}: expected names of classes, found {model['classes']!r:.80}")
    guarantee = content.get("guarantee")
    if guarantee is not None and not isinstance(guarantee, dict):
        raise InputError(f"{path}: expected an object or null as guarantee, found {guarantee!r}")
    return ExitPolicy(
        signal=signal,
        threshold=stored_threshold(path, content.get("threshold"), model["layers"]),
        model=PolicyModel(
            layers=model["layers"], classes=tuple(model["classes"]), **{name: model[name] for name in texts}
        ),
        calibration=stored_exits(path, part(path, content, "calibration"), model["layers"]),
        guarantee=guarantee,
        expected=part(path, content, "expected"),
        note=str(content.get("note", "")),
    )


def read_object(path: Path, what: str) -> dict[str, Any]:
    """The JSON object in a file that should hold ``what``."""
    try:
        if not stat.S_ISREG((state := path.stat()).st_mode) or state.st_size > LARGEST:
            raise InputError(f"expected {what} of at most {LARGEST >> 20} MB in {path}, found no such file")
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(f"expected {what} as JSON in {path}, found {str(error.strerror).lower()}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"expected {what} as JSON in {path}, found: {error}") from error
    if not isinstance(content, dict):
        raise InputError(f"expected a JSON object in {path}, found {type(content).__name__}")
    return content


def part(path: Path, content: Mapping[str, Any], name: str) -> dict[str, Any]:
    """One of the objects of a policy."""
    value = content.get(name)
    if not isinstance(value, dict):
        raise InputError(f"{path}: expected an object as {name}, found {value!r}")
    return value


def stored_threshold(path: Path, value: Any, layers: int) -> Threshold:
    """A threshold as JSON has it: a finite number, a list of one for every internal layer, or null."""
    if value is None or is_number(value):
        return None if value is None else float(value)
    if isinstance(value, list) and len(value) == layers - 1 and all(each is None or is_number(each) for each in value):
        return [None if each is None else float(each) for each in value]
    raise InputError(f"{path}: expected a number, a list of {layers - 1} or null as threshold, found {value!r}")


def stored_exits(path: Path, content: Mapping[str, Any], layers: int) -> CalibrationExits:
    """The exits of calibration rows, as many layers as scores."""
    exits, scores = content.get("exit_layers"), content.get("scores")
    if (
        not isinstance(exits, list)
        or not isinstance(scores, list)
        or len(exits) != len(scores)
        or not all(is_layer(layer, layers) for layer in exits)
        or not all(score is None or is_number(score) for score in scores)
    ):
        raise InputError(f"{path}: expected exit layers 1..{layers} and a score for each as calibration, found others")
    return CalibrationExits(tuple(exits), tuple(None if score is None else float(score) for score in scores))


def is_number(value: Any) -> bool:
    """Whether JSON held a number here that is finite in float64; a whole number of JSON may have any size."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_layer(value: Any, layers: int) -> bool:
    """Whether JSON held the number of a layer here."""
    return isinstance(value, int) and not isinstance(value, bool) and 1 <= value <= layers


def stored_signal(path: Path, content: Mapping[str, Any], registry: Registry) -> ExitSignal:
    """A signal as ``to_json`` wrote it, its learned values checked against its declaration."""
    signal = registry.from_json(content)
    hints = typing.get_type_hints(type(signal))
    for name in content.get("learned") or {}:
        if not fits(getattr(signal, name), hints[name]):
            expected = str(hints[name]).removesuffix(" | None")
            raise InputError(
                f"{path}: expected {expected} as {name} of signal {signal.name}, found {content['learned'][name]!r}"
            )
    return signal


def fits(value: Any, hint: Any) -> bool:
    """Whether a value read from JSON is what an annotation says; what JSON cannot hold is not judged."""
    origin, parts = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(fits(value, each) for each in parts)
    if origin is tuple and parts[1:] == (Ellipsis,):
        return isinstance(value, tuple) and all(fits(item, parts[0]) for item in value)
    if hint in (float, int):
        return is_number(value) and (hint is float or isinstance(value, int))
    plain = origin or hint
    return isinstance(value, plain) if plain in (bool, str, types.NoneType, tuple) else True
