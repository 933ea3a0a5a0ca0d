"""Driving a signal over the layers of a network.

Everything that scores (the replay of a cache, live inference, the conformance checks) goes through
:func:`validated_score`, so that a signal that returns the wrong shape or a NaN is named at once instead
of spoiling a ranking silently.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.signals.contract.layer import Layer, State
from exitbench.signals.contract.signal import ExitSignal


def validated_score(signal: ExitSignal, layer: Layer, score: Any, *, rows: Sequence[int] | None = None) -> Tensor:
    """``score`` itself if it is what the contract asks for at this layer, else an InputError.

    The contract: a tensor [samples] of float64, finite from ``first_scored_layer`` on and all NaN before. A NaN has no
    place in a ranking, and no threshold parts an infinite score from its neighbours. At one of the signal's
    ``unscored_layers``, or with a head that it has no score for, the result is NaN for all, whatever ``score`` holds.
    An error names the sample by its row: where the layer is a part of a cache, ``rows`` says which rows it has.
    """
    if not isinstance(score, Tensor):
        raise InputError(f"{_where(signal, layer)}: expected a tensor of scores, found {type(score).__name__}")
    if score.dtype != torch.float64 or score.shape != (layer.samples,):
        returned = f"{str(score.dtype).removeprefix('torch.')} {list(score.shape)}"
        raise InputError(f"{_where(signal, layer)}: expected scores float64 [{layer.samples}], found {returned}")
    if layer.index in signal.unscored_layers or (layer.head is not None and signal.unscored_head(layer.head)):
        return layer.no_score()
    if layer.index < signal.first_scored_layer:
        if not bool(score.isnan().all()):
            first = signal.first_scored_layer
            raise InputError(f"{_where(signal, layer)}: a score before its first scored layer, {first}")
    elif not math.isfinite(float(score.sum())) and not bool(score.isfinite().all()):
        # One sum, since this stands in every live step; only a sum that is not finite is looked into.
        row = int(score.isfinite().logical_not().nonzero()[0])
        raise InputError(
            f"{_where(signal, layer)}: expected a finite score for row {row if rows is None else rows[row]} "
            f"(id {int(layer.ids[row])}), found {float(score[row])}"
        )
    return score


def _where(signal: ExitSignal, layer: Layer) -> str:
    return f"signal {signal.text} at layer {layer.index}"


def score_layers(signal: ExitSignal, layers: Iterable[Layer]) -> Tensor:
    """The scores of a signal at every internal layer, [layers - 1, samples] float64; NaN where none is defined.

    ``layers`` come in order from 1; the last layer always answers and is not scored, so it may be left out.
    """
    if signal.needs_fit:
        raise InputError(f"signal {signal.text} must be fitted on a calibration set before it can score")
    rows: list[Tensor] = []
    state: State = None
    for layer in layers:
        if layer.index != len(rows) + 1:
            raise InputError(f"signal {signal.text}: expected layer {len(rows) + 1}, found layer {layer.index}")
        if layer.index == layer.depth:
            break
        score, state = signal.step(layer.only(signal.inputs), state)
        rows.append(validated_score(signal, layer, score))
    if not rows:
        raise InputError(f"signal {signal.text}: expected at least one internal layer, found none")
    return torch.stack(rows)


def take_state(state: State, rows: Tensor) -> State:
    """A signal's state for the samples at ``rows`` (an index or a mask) only, as when the others have exited."""
    if state is None:
        return None
    if isinstance(state, Tensor):
        return state[rows]
    if isinstance(state, dict):
        return {key: take_state(part, rows) for key, part in state.items()}
    if isinstance(state, tuple | list):
        return type(state)(take_state(part, rows) for part in state)
    raise InputError(
        f"a signal's state must be tensors, or a tuple, list or dict of them, with the samples first; "
        f"found {type(state).__name__}"
    )


def join_states(states: Sequence[State]) -> State:
    """The states of several groups of samples at one layer as that of all of them, in the order of the groups."""
    first = states[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return torch.cat(list(states))
    if isinstance(first, dict):
        return {key: join_states([state[key] for state in states]) for key in first}
    return type(first)(join_states(list(parts)) for parts in zip(*states, strict=True))
