"""Declarations without torch: a list of signals reads names, references and parameters, and computes nothing.

Importing torch takes longer than all else that a list needs. So the files of signals are loaded with a stand-in under
its name: its classes may stand in annotations and be derived from, its names be looked up. A file that computes with
torch while it is loaded makes everything be loaded once more, with torch itself.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, TypeVar

from exitbench.errors import InputError

Declared = TypeVar("Declared")
OWN = "exitbench"
NAME = "torch"
DECORATORS = ("no_grad", "inference_mode")
"""What is called while a class is made, and computes nothing."""


class NeedsTorch(Exception):  # noqa: N818 - it is caught here and nobody's error
    """What was to be read cannot be known without torch."""


class AbsentClass:
    """What every class of the stand-in is derived from; an object of it would be a tensor."""

    def __new__(cls, *arguments: object, **options: object) -> AbsentClass:
        raise NeedsTorch(cls.__name__)


class AbsentName:
    """Anything else of torch: a function, a type of numbers, a submodule that nobody imported."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __getattr__(self, name: str) -> Any:
        return absent(f"{self.name}.{name}")

    def __call__(self, *arguments: object, **options: object) -> Any:
        if self.name in DECORATORS and not arguments:
            return lambda function: function
        raise NeedsTorch(self.name)

    def __or__(self, other: object) -> Any:  # `torch.device | str`, an annotation
        return Any

    __ror__ = __or__


class StandIn(ModuleType):
    """A module of torch's name whose every attribute is there, and nothing in it."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = absent(name)
        setattr(self, name, value)  # a class is one and the same each time
        return value


def absent(name: str) -> Any:
    """What stands for a name of torch: a class for one that begins like a class."""
    last = name.rpartition(".")[2]
    return type(last, (AbsentClass,), {}) if last[:1].isupper() else AbsentName(name)


class _Finder(MetaPathFinder, Loader):
    """Finds torch and its submodules before anybody else does."""

    def find_spec(self, name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> ModuleSpec | None:
        return ModuleSpec(name, self, is_package=True) if name.partition(".")[0] == NAME else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return StandIn(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is in it."""


def without_torch(read: Callable[[], Declared]) -> Declared:
    """What ``read`` returns, without torch where it can be known so: where it cannot, ``read`` is called again.

    ``read`` imports what it needs by itself, and raises NeedsTorch where :func:`standing_in` and something is missing.
    Modules of exitbench, and all others that have met the stand-in, are forgotten afterwards.
    """
    if NAME in sys.modules:
        return read()
    try:
        with _stand_in():
            return read()
    except Exception as error:
        if isinstance(error, InputError):
            raise
    return read()  # what else went wrong goes wrong again, if it is not for want of torch


def standing_in() -> bool:
    """Whether what is loaded now meets the stand-in."""
    return isinstance(sys.modules.get(NAME), StandIn)


@contextmanager
def _stand_in() -> Iterator[None]:
    before = set(sys.modules)
    # A package keeps the names that were asked of it, and those would outlive the modules they came from.
    names = {name: set(vars(sys.modules[name])) for name in before if name.partition(".")[0] == OWN}
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        loaded = {name: module for name, module in sys.modules.items() if name not in before}
        met = {name.partition(".")[0] for name, module in loaded.items() if _has_met(module)} | {NAME, OWN}
        for name in loaded:
            if name.partition(".")[0] in met:
                del sys.modules[name]
        for package, known in names.items():
            for name in set(vars(sys.modules[package])) - known:
                delattr(sys.modules[package], name)


def _has_met(module: ModuleType) -> bool:
    """Whether a module holds a piece of the stand-in."""
    return any(
        isinstance(value, StandIn | AbsentName) or (isinstance(value, type) and issubclass(value, AbsentClass))
        for value in list(vars(module).values())
    )
