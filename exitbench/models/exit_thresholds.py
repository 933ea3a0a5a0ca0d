"""Thresholds of a running model: one for every internal layer, refused where no exit could come of them."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence

from exitbench.errors import InputError
from exitbench.signals import ExitSignal
from exitbench.signals.contract.layer import output_names


def unreachable_threshold(signal: ExitSignal) -> float:
    """A threshold that no score of the signal passes: all layers run, and the signal is asked at each."""
    return -math.inf if signal.exits_when in ("<", "<=") else math.inf


def layer_thresholds(threshold: float | Sequence[float], depth: int) -> tuple[float, ...]:
    """A threshold for every internal layer."""
    if not isinstance(threshold, Sequence):
        return (float(threshold),) * (depth - 1)
    if len(threshold) != depth - 1:
        raise InputError(f"expected {depth - 1} thresholds, one for every internal layer, found {len(threshold)}")
    return tuple(map(float, threshold))


def require_exits(signal: ExitSignal, threshold: float, depth: int, outputs: Collection[str] = ()) -> None:
    """An InputError unless this signal, with this threshold, can end a network of ``depth`` layers early.

    ``outputs`` are the names of what the network says beside its logits.
    """
    if signal.needs_fit:
        raise InputError(
            f"signal {signal.text} learns from labelled samples: fit it on a cache first (--calibrate), "
            "or give what it learned (--signal-file)"
        )
    if missing := [name for name in output_names(signal.inputs) if name not in outputs]:
        listed = f"only {', '.join(outputs)}" if outputs else "no outputs but its logits"
        raise InputError(
            f"signal {signal.text} reads the output {missing[0]!r}, which a cache may hold; this network has {listed}"
        )
    if signal.first_exit_layer >= depth:
        raise InputError(
            f"signal {signal.text} exits at layer {signal.first_exit_layer} at the earliest, "
            f"found a model of {depth} layers, where the last always answers"
        )
    if math.isnan(threshold):
        raise InputError(f"expected a number as threshold of {signal.text}, found nan")
    allowed = signal.thresholds.values(depth)
    if allowed is not None and math.isfinite(threshold) and threshold not in allowed:
        raise InputError(
            f"expected a whole threshold {allowed.start}..{allowed.stop - 1} for {signal.text} in a model of "
            f"{depth} layers, found {threshold:g}"
        )
