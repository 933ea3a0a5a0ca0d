"""Classes with parameters found in files, beside signals: methods that derive a cache, recipes of a training.

A folder of the package and the folders that a user names hold one file each. Signals have a registry of their own,
which also knows installed packages and goes on where a file is broken.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Generic, TypeVar

from exitbench.errors import InputError, did_you_mean
from exitbench.signals.contract.parameters import NAME, parameters
from exitbench.signals.contract.signal import Parametrised
from exitbench.signals.registry import text_form
from exitbench.signals.registry.catalogue import parameter_text
from exitbench.signals.registry.discovery import load_file, signal_files

P = TypeVar("P", bound=Parametrised)


class FoundClasses(Generic[P]):
    """The subclasses of ``base`` that files define, by name, and where each came from.

    ``package`` is the content folder of exitbench, ``directories`` are the user's; a file of the user's that does not
    load is an InputError.
    """

    def __init__(self, base: type[P], package: ModuleType, directories: Sequence[Path | str] = ()) -> None:
        self.base, self.kind = base, base.kind
        self.classes: dict[str, type[P]] = {}
        self.origins: dict[str, str] = {}
        for path in signal_files(Path(package.__path__[0])):
            self._add_from(importlib.import_module(f"{package.__name__}.{path.stem}"), str(path))
        for directory in map(Path, directories):
            if not directory.is_dir():
                raise InputError(f"expected a directory of {self.kind}s, found none at {directory}")
            for path in signal_files(directory):
                try:
                    module = load_file(path)
                except Exception as error:  # a user's file may raise anything
                    raise InputError(f"{path}: {type(error).__name__}: {error}") from error
                self._add_from(module, str(path))

    def _add_from(self, module: ModuleType, origin: str) -> None:
        """Register the classes that a module defines, which must be some."""
        defined = [
            member
            for member in vars(module).values()
            if inspect.isclass(member) and issubclass(member, self.base) and member.__module__ == module.__name__
        ]
        if not defined:
            expected = f"expected a subclass of {self.base.__name__} with a name"
            raise InputError(f"{origin}: defines no {self.kind}: {expected}")
        for class_ in defined:
            self.add(class_, origin)

    def add(self, class_: type[P], origin: str) -> None:
        """Register a class; an InputError where its name is no name or is taken by another."""
        name = getattr(class_, "name", None)
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise InputError(f"{origin}: expected a {self.kind}'s name such as class-means, found {name!r}")
        if name in self.classes:
            both = f"{self.origins[name]} and {origin}"
            raise InputError(f"two {self.kind}s are named {name!r}: {both}; rename one of them")
        self.classes[name], self.origins[name] = class_, origin

    def make(self, written: str) -> P:
        """The one object that a text such as ``heads[penalty=0.1]`` stands for."""
        name, values = text_form.parse(written, self.kind)
        if name not in self.classes:
            known = ", ".join(sorted(self.classes))
            near = did_you_mean(name.lower(), self.classes)
            raise InputError(f"unknown {self.kind} {name!r}.{near} Known: {known}.")
        settings = text_form.expand(self.classes[name], values)
        if len(settings) != 1:
            raise InputError(f"expected one {self.kind}, found a grid of {len(settings)}: {written}")
        return settings[0]

    def described(self) -> list[dict[str, Any]]:
        """Name, title, parameters at their defaults and reference of each, for ``exitbench list``."""
        return [
            {
                "key": name,
                "title": class_.title,
                "parameters": [parameter_text(parameter) for parameter in parameters(class_)],
                "reference": {"year": class_.reference.year, "link": class_.reference.link},
            }
            for name, class_ in sorted(self.classes.items())
        ]
