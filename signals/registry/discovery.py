"""Discovery of signals: in this package, in directories the user names, and in installed packages.

No list of signals exists anywhere. A file at the top of ``signals/``, a file of a ``--signals-dir``, or an entry
point of the group ``exitbench.signals`` (a class or a module) contributes every subclass of
:class:`~exitbench.signals.contract.signal.ExitSignal` with a ``name`` that is defined there. A file that fails is kept
in :attr:`Registry.broken` with its error while the others load; two signals of one name are an error.
"""

import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import ModuleType

from exitbench.errors import InputError
from exitbench.signals.contract.declaration import validate
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.registry import Broken, Registry

GROUP = "exitbench.signals"
"""The package of the signals that come with exitbench, and the entry point group of others."""
PACKAGE = Path(__file__).parents[1]


def load_registry(directories: Sequence[Path | str] = ()) -> Registry:
    """All signals of this package, of each directory given, and of installed packages."""
    registry = Registry()
    read: set[Path] = set()
    for path in signal_files(PACKAGE):
        read.add(path.resolve())
        _collect(registry, str(path), partial(importlib.import_module, f"{GROUP}.{path.stem}"))
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


def _collect(registry: Registry, origin: str, load: Callable[[], object]) -> None:
    """Add what one place defines; keep its error, if it has one, and go on."""
    try:
        found = defined_in(load())
        if not found:
            raise InputError("defines no signal: expected a subclass of ExitSignal with a name")
        for signal in found:
            validate(signal)
    except (Exception, SystemExit) as error:
        problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        registry.broken.append(Broken(origin, " ".join(problem.split())))
        return
    for signal in found:
        registry.add(signal, origin)
