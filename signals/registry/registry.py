"""The registry: signals by name, made from their text form or from JSON; an error names the nearest signals."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from exitbench.errors import InputError, did_you_mean
from exitbench.signals.contract.declaration import validate
from exitbench.signals.contract.parameters import parameters
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry import text_form


class Broken(NamedTuple):
    """A file or entry point that should define signals and does not load, with its error in one line."""

    path: str
    error: str


class Registry:
    """The signals that were loaded, by name.

    >>> from exitbench.signals.registry.discovery import load_registry
    >>> registry = load_registry()
    >>> registry.make("cap[alpha=0.1]").text
    'cap[alpha=0.1]'
    >>> [signal.text for signal in registry.expand("pcee[patience=1|2]")]
    ['pcee[patience=1]', 'pcee']
    """

    def __init__(self) -> None:
        self.signals: dict[str, type[ExitSignal]] = {}
        self.broken: list[Broken] = []
        self._origins: dict[str, str] = {}

    def add(self, signal: type[ExitSignal], origin: str) -> None:
        """Register a class found at ``origin``; an InputError if its declaration is wrong or its name is taken."""
        validate(signal)
        if signal.name in self.signals and self.signals[signal.name] is not signal:
            both = f"{self._origins[signal.name]} and {origin}"
            raise InputError(f"two signals are named {signal.name!r}: {both}; rename one of them")
        self.signals[signal.name] = signal
        self._origins.setdefault(signal.name, origin)

    def origin(self, name: str) -> str:
        """The file or entry point that a signal came from."""
        self.get(name)
        return self._origins[name]

    def get(self, name: str) -> type[ExitSignal]:
        """The class of a signal; an InputError with the nearest names where there is none."""
        if name in self.signals:
            return self.signals[name]
        broken = "".join(f" Not loaded: {source.path} ({source.error})." for source in self.broken)
        names = ", ".join(sorted(self.signals))
        raise InputError(f"unknown signal {name!r}.{did_you_mean(name.lower(), self.signals)} Known: {names}.{broken}")

    def expand(self, written: str) -> list[ExitSignal]:
        """One signal for each point of a grid such as ``cap[alpha=0.1|1]``, in the order written."""
        name, values = text_form.parse(written)
        signal = self.get(name)
        for parameter in parameters(signal):
            if parameter.signal and parameter.name in values:
                inner = (self.expand(value) for value in values[parameter.name])
                values[parameter.name] = [setting.text for settings in inner for setting in settings]
        return list(text_form.expand(signal, values))

    def make(self, written: str) -> ExitSignal:
        """The one signal that a text such as ``cap[alpha=0.1]`` stands for."""
        signals = self.expand(written)
        if len(signals) != 1:
            raise InputError(f"expected one signal, found a grid of {len(signals)}: {written}")
        return signals[0]

    def from_json(self, stored: Mapping[str, Any]) -> ExitSignal:
        """The signal that ``to_json`` described, with what it had learned."""
        return self.get(str(stored.get("name"))).from_json(stored)
