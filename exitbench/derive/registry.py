"""Methods found in files: those of ``methods/`` and of directories that the user names, by their text form."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType

from exitbench.derive.contract import AnswerMethod
from exitbench.errors import InputError, did_you_mean
from exitbench.signals.contract.parameters import NAME
from exitbench.signals.registry import text_form
from exitbench.signals.registry.discovery import load_file, signal_files

PACKAGE = "exitbench.derive.methods"
FOLDER = Path(__file__).with_name("methods")


class MethodRegistry:
    """The methods that were loaded, by name, and where each came from."""

    def __init__(self) -> None:
        self.methods: dict[str, type[AnswerMethod]] = {}
        self.origins: dict[str, str] = {}

    def add(self, method: type[AnswerMethod], origin: str) -> None:
        """Register a class; an InputError where its name is no name or is taken by another."""
        if not NAME.fullmatch(method.name):
            raise InputError(f"{origin}: expected a method's name such as class-means, found {method.name!r}")
        if method.name in self.methods:
            both = f"{self.origins[method.name]} and {origin}"
            raise InputError(f"two methods are named {method.name!r}: {both}; rename one of them")
        self.methods[method.name], self.origins[method.name] = method, origin

    def make(self, written: str) -> AnswerMethod:
        """The one method that a text such as ``heads[penalty=0.1]`` stands for."""
        name, values = text_form.parse(written)
        if name not in self.methods:
            known = ", ".join(sorted(self.methods))
            raise InputError(f"unknown method {name!r}.{did_you_mean(name.lower(), self.methods)} Known: {known}.")
        try:
            settings = text_form.expand(self.methods[name], values)
        except InputError as error:  # the reader of texts speaks of signals
            raise InputError(str(error).replace(f"signal {name}", f"method {name}", 1)) from error
        if len(settings) != 1:
            raise InputError(f"expected one method, found a grid of {len(settings)}: {written}")
        return settings[0]


def load_methods(directories: Sequence[Path | str] = ()) -> MethodRegistry:
    """All methods of this package and of each directory; a file of the user's that does not load is an InputError."""
    registry = MethodRegistry()
    for path in signal_files(FOLDER):
        add_from(registry, importlib.import_module(f"{PACKAGE}.{path.stem}"), str(path))
    for directory in map(Path, directories):
        if not directory.is_dir():
            raise InputError(f"expected a directory of methods, found none at {directory}")
        for path in signal_files(directory):
            try:
                module = load_file(path)
            except Exception as error:  # a user's file may raise anything
                raise InputError(f"{path}: {type(error).__name__}: {error}") from error
            add_from(registry, module, str(path))
    return registry


def add_from(registry: MethodRegistry, module: ModuleType, origin: str) -> None:
    """Register the methods that a module defines, which must be some."""
    defined = [
        member
        for member in vars(module).values()
        if inspect.isclass(member) and issubclass(member, AnswerMethod) and member.__module__ == module.__name__
    ]
    if not defined:
        raise InputError(f"{origin}: defines no method: expected a subclass of AnswerMethod with a name")
    for method in defined:
        registry.add(method, origin)
