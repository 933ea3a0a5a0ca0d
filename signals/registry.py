"""Finding signals: in this package, in directories the user names, and in installed packages.

No list of signals exists anywhere. A module of this package, a file of a ``--signals-dir``, or an entry
point of the group ``exitbench.signals`` (a class or a module) contributes every subclass of
:class:`~signals.contract.ExitSignal` with a ``name`` that is defined there. A file that fails is kept in
:attr:`Registry.broken` with its error while the others load; two signals of one name are an error.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import signals
from exitbench.errors import InputError, did_you_mean
from signals import text
from signals.contract import ExitSignal
from signals.declaration import validate

GROUP = "exitbench.signals"


class Broken(NamedTuple):
    """A place that should have given signals and did not: a file or entry point, and its error in one line."""

    path: str
    error: str


class Registry:
    """The signals that were found, by name.

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
        unread = "".join(f" Not loaded: {one.path} ({one.error})." for one in self.broken)
        known = ", ".join(sorted(self.signals))
        raise InputError(f"unknown signal {name!r}.{did_you_mean(name.lower(), self.signals)} Known: {known}.{unread}")

    def expand(self, written: str) -> list[ExitSignal]:
        """One signal for each point of a grid such as ``cap[alpha=0.1|1]``, in the order written."""
        name, given = text.parse(written)
        return list(text.expand(self.get(name), given))

    def make(self, written: str) -> ExitSignal:
        """The one signal that a text such as ``cap[alpha=0.1]`` stands for."""
        made = self.expand(written)
        if len(made) != 1:
            raise InputError(f"expected one signal, found a grid of {len(made)}: {written}")
        return made[0]

    def from_json(self, stored: Mapping[str, Any]) -> ExitSignal:
        """The signal that ``to_json`` described, with what it had learned."""
        return self.get(str(stored.get("name"))).from_json(stored)


def load_registry(directories: Sequence[Path | str] = ()) -> Registry:
    """All signals of this package, of each directory given, and of installed packages."""
    registry = Registry()
    read: set[Path] = set()
    for path in signal_files(Path(signals.__path__[0])):
        read.add(path.resolve())
        # Most modules of the package support the signals and define none; a directory of signals has no such excuse.
        load = partial(importlib.import_module, f"signals.{path.stem}")
        _collect(registry, str(path), load, none_is_fine=True)
    for directory in map(Path, directories):
        if not directory.is_dir():
            raise InputError(f"expected a directory of signals, found none at {directory}")
        for path in signal_files(directory):
            if path.resolve() not in read:
                read.add(path.resolve())
                _collect(registry, str(path), partial(load_file, path))
    for entry in importlib.metadata.entry_points(group=GROUP):
        origin = f"entry point {entry.name} = {entry.value}"
        _collect(registry, origin, entry.load)
    return registry


def signal_files(directory: Path) -> list[Path]:
    """The Python files of a directory that should hold signals: no tests, nothing that starts with an underscore."""
    files = sorted(directory.glob("*.py"))
    return [path for path in files if not path.name.startswith(("_", "test_")) and path.name != "conftest.py"]


def load_file(path: Path) -> ModuleType:
    """A Python file as a module, under a name that no other file can have."""
    path = path.resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"exitbench_signal_{digest}_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"expected a Python file with a signal, found {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up while a class is being made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def defined_in(found: object) -> list[type[ExitSignal]]:
    """The signal classes that a module defines (not those it imports), or the one that is given itself."""
    if inspect.isclass(found):
        return [found] if issubclass(found, ExitSignal) else []
    return [
        member
        for member in vars(found).values()
        if inspect.isclass(member)
        and issubclass(member, ExitSignal)
        and member.__module__ == getattr(found, "__name__", None)
        and hasattr(member, "name")
    ]


def signals_in(path: Path | str) -> list[type[ExitSignal]]:
    """The signals that one file defines; an InputError with its path where it fails to load or defines none."""
    registry = Registry()
    _collect(registry, str(path), partial(load_file, Path(path)))
    if registry.broken:
        raise InputError(f"{path}: {registry.broken[0].error}")
    return list(registry.signals.values())


def _collect(registry: Registry, origin: str, load: Callable[[], object], *, none_is_fine: bool = False) -> None:
    """Add what one place defines; keep its error, if it has one, and go on."""
    try:
        found = defined_in(load())
        if not found and not none_is_fine:
            raise InputError("defines no signal: expected a subclass of ExitSignal with a name")
        for signal in found:
            validate(signal)
    except (Exception, SystemExit) as error:
        problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        registry.broken.append(Broken(origin, " ".join(problem.split())))
        return
    for signal in found:
        registry.add(signal, origin)
