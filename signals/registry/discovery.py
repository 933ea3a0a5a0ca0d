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
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

from exitbench.errors import InputError
from exitbench.signals.contract.declaration import validate
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry import text_form
from exitbench.signals.registry.registry import Broken, Registry

GROUP = "exitbench.signals"
"""The package of the signals that come with exitbench, and the entry point group of others."""
PACKAGE = Path(__file__).parents[1]


Fingerprint = tuple[object, ...]
"""What a registry was loaded from: the entry points, and path, modification time and size of every file."""

_loaded: dict[tuple[Path, ...], tuple[Fingerprint, Registry]] = {}
"""The registry of each set of directories that this process has loaded, with what it was loaded from."""


def load_registry(directories: Sequence[Path | str] = ()) -> Registry:
    """All signals of this package, of each directory, and of installed packages.

    A process imports them once: another call for the same directories returns the same registry until a file there
    changes. A registry with a broken file is loaded again, since what the file lacks may be there by now.
    """
    paths = [Path(directory) for directory in directories]
    for path in paths:
        if not path.is_dir():
            raise InputError(f"expected a directory of signals, found none at {path}")
    resolved = tuple(path.resolve() for path in paths)
    entry_points = tuple(importlib.metadata.entry_points(group=GROUP))
    files = [file for path in resolved for file in sorted(path.glob("*.py")) if file.is_file()]
    fingerprint = (*entry_points, *map(_file_state, files))
    if resolved in _loaded and _loaded[resolved][0] == fingerprint:
        return _loaded[resolved][1]
    registry = _discover(paths, entry_points)
    if not registry.broken:
        _loaded[resolved] = fingerprint, registry
    return registry


def known_signal(written: str) -> ExitSignal:
    """The signal that a text inside another signal's stands for: of this package, or of any registry loaded so far."""
    name = text_form.parse(written)[0]
    for _, registry in _loaded.values():
        if name in registry.signals:
            return registry.make(written)
    return load_registry().make(written)


def _file_state(file: Path) -> tuple[Path, int, int]:
    state = file.stat()
    return file, state.st_mtime_ns, state.st_size


def _discover(directories: Sequence[Path], entry_points: Sequence[importlib.metadata.EntryPoint]) -> Registry:
    registry = Registry()
    read: set[Path] = set()
    for path in signal_files(PACKAGE):
        read.add(path.resolve())
        _collect(registry, str(path), partial(importlib.import_module, f"{GROUP}.{path.stem}"))
    for directory in directories:
        for path in signal_files(directory):
            if path.resolve() not in read:
                read.add(path.resolve())
                _collect(registry, str(path), partial(load_file, path))
    for entry_point in entry_points:
        origin = f"entry point {entry_point.name} = {entry_point.value}"
        _collect(registry, origin, entry_point.load)
    return registry


def signal_files(directory: Path) -> list[Path]:
    """The Python files of a directory that should hold signals: no tests, nothing that starts with an underscore."""
    files = sorted(directory.glob("*.py"))
    return [path for path in files if not path.name.startswith(("_", "test_")) and path.name != "conftest.py"]


class _SourceLoader(SourceFileLoader):
    """Compiles the source each time: bytecode on disk counts as fresh for a second, too long while a file is edited."""

    def get_code(self, fullname: str) -> CodeType | None:
        return self.source_to_code(self.get_data(self.path), self.path)


def load_file(path: Path) -> ModuleType:
    """A Python file as a module, under a name that no other file can have."""
    path = path.resolve()
    digest = hashlib.sha256(str(path).encode()).hexdigest()[:12]
    name = f"exitbench_signal_{digest}_{path.stem.replace('-', '_')}"
    spec = importlib.util.spec_from_file_location(name, path, loader=_SourceLoader(name, str(path)))
    if path.suffix != ".py" or spec is None or spec.loader is None:
        raise InputError(f"expected a Python file with a signal, found {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their own module up while a class is being made
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def defined_in(source: object) -> list[type[ExitSignal]]:
    """The signal classes that a module defines (not those it imports), or the class itself where it is one."""
    if inspect.isclass(source):
        return [source] if issubclass(source, ExitSignal) else []
    return [
        member
        for member in vars(source).values()
        if inspect.isclass(member)
        and issubclass(member, ExitSignal)
        and member.__module__ == getattr(source, "__name__", None)
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
    """Add the signals that one file or entry point defines; where it fails, keep its error and go on."""
    try:
        signals = defined_in(load())
        if not signals:
            raise InputError("defines no signal: expected a subclass of ExitSignal with a name")
        for signal in signals:
            validate(signal)
    except (Exception, SystemExit) as error:
        problem = str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
        registry.broken.append(Broken(origin, " ".join(problem.split())))
        return
    for signal in signals:
        registry.add(signal, origin)
