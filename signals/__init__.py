"""The registry of exit signals: one file per signal, found without being listed anywhere.

A file with a signal of one's own needs this import only; ``Tensor`` is torch's.
"""

from torch import Tensor

from signals.contract import (
    Continuous,
    Direction,
    ExitSignal,
    Head,
    Input,
    Integers,
    Layer,
    Reference,
    State,
    learned,
    parameter,
)
from signals.registry import Registry, load_registry, signals_in
from signals.run import exits, score_layers, take_state, validated_score

__all__ = [
    "Continuous",
    "Direction",
    "ExitSignal",
    "Head",
    "Input",
    "Integers",
    "Layer",
    "Reference",
    "Registry",
    "State",
    "Tensor",
    "exits",
    "learned",
    "load_registry",
    "parameter",
    "score_layers",
    "signals_in",
    "take_state",
    "validated_score",
]
