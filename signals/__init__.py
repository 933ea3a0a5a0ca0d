"""The registry of exit signals: one file per signal, found without being listed anywhere.

A file with a signal of one's own needs this import only; ``Tensor`` is torch's.
"""

from torch import Tensor

from exitbench.exit_rule import Direction, exits
from exitbench.head_algebra import Head
from exitbench.signals.contract.forms import Form
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter
from exitbench.signals.contract.signal import Continuous, ExitSignal, Integers, Reference
from exitbench.signals.contract.stepping import join_states, score_layers, take_state, validated_score
from exitbench.signals.registry.discovery import load_registry, signals_in
from exitbench.signals.registry.registry import Registry

__all__ = [
    "Continuous",
    "Direction",
    "ExitSignal",
    "Form",
    "Head",
    "Input",
    "Integers",
    "Layer",
    "LearnedSignal",
    "Reference",
    "Registry",
    "State",
    "Tensor",
    "exits",
    "join_states",
    "learned",
    "load_registry",
    "parameter",
    "score_layers",
    "signals_in",
    "take_state",
    "validated_score",
]
