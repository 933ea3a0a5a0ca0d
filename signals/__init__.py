"""The registry of exit signals: one file per signal, found without being listed anywhere."""

from signals.contract import Continuous, ExitSignal, Head, Integers, Layer, Reference, State, learned, parameter
from signals.registry import Registry, load_registry
from signals.run import exits, score_layers, take_state, validated_score

__all__ = [
    "Continuous",
    "ExitSignal",
    "Head",
    "Integers",
    "Layer",
    "Reference",
    "Registry",
    "State",
    "exits",
    "learned",
    "load_registry",
    "parameter",
    "score_layers",
    "take_state",
    "validated_score",
]
