"""Finding the function that ``collect --network`` names, and calling it: the only foreign code that is run."""

from __future__ import annotations

import hashlib
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from exitbench.errors import InputError, did_you_mean, one_line
from exitbench.models.own_network.contract import Network
from exitbench.signals.registry.discovery import load_file


def load_network(reference: str, split: str) -> Network:
    """What the function of ``FILE.py:function`` or ``package.module:function`` returns for a split."""
    function = network_function(reference)
    with foreign_code(reference):
        network = function(split)
    if not isinstance(network, Network):
        raise InputError(f"{reference}: expected a Network from exitbench.models, found a {type(network).__name__}")
    return network


def network_function(reference: str) -> Callable[[str], Any]:
    """The function that a reference names; its file, or its module, is imported for it."""
    source, colon, name = reference.rpartition(":")
    if not colon or not source or not name.isidentifier():
        raise InputError(f"expected --network FILE.py:function or package.module:function, found {reference!r}")
    module = _module(source, reference)
    function = getattr(module, name, None)
    if function is None:
        public = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InputError(f"expected a function {name!r} in {source}, found none.{did_you_mean(name, public)}")
    if not callable(function):
        raise InputError(f"expected a function {name!r} in {source}, found a {type(function).__name__}")
    return function  # type: ignore[no-any-return]


def _module(source: str, reference: str) -> ModuleType:
    if not source.endswith(".py"):
        with foreign_code(reference):
            return importlib.import_module(source)
    path = Path(source)
    if not path.is_file():
        raise InputError(f"expected a Python file at {path}, found no such file")
    folder = str(path.resolve().parent)
    with foreign_code(reference):
        # As Python does for a script: the files beside it can be imported.
        sys.path.insert(0, folder)
        try:
            return load_file(path)
        finally:
            sys.path.remove(folder)


def source_sha256(reference: str) -> str | None:
    """The sha256 of the file that a reference names; ``None`` for an installed module."""
    source = reference.rpartition(":")[0]
    return hashlib.sha256(Path(source).read_bytes()).hexdigest() if source.endswith(".py") else None


@contextmanager
def foreign_code(reference: str) -> Iterator[None]:
    """Report what goes wrong with the user's own code in one line that names it; ``--debug`` shows where it arose."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{reference}: {error}") from error
    except Exception as error:
        raise InputError(f"{reference}: {type(error).__name__}: {one_line(error)}") from error
