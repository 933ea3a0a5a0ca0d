"""The registry of exit signals: one file per signal, found without being listed anywhere."""

from signals.contract import Continuous, ExitSignal, Head, Integers, Layer, Reference, State, learned, parameter

__all__ = ["Continuous", "ExitSignal", "Head", "Integers", "Layer", "Reference", "State", "learned", "parameter"]
