"""The tree stays as the rooms have it: small folders, one file per signal, names that say what a thing is."""

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from exitbench.signals import ExitSignal

ROOT = Path(__file__).parents[1]
ROOMS = ("signals", "benchmarks", "reports", "exitbench")
CONTENT = ("signals", "benchmarks/speed", "exitbench/cli/verbs", "exitbench/models/recipes")
"""Folders where one file is one signal, benchmark, verb or recipe; they may hold any number."""

LIMIT = 15
MACHINERY = {"conformance", "contract", "registry"}


def folders(root: Path) -> Iterator[Path]:
    """Every folder of the rooms; symbolic links to a room are not entered twice."""
    for room in ROOMS:
        for folder in (root / room, *(root / room).rglob("*")):
            if folder.is_dir() and not folder.is_symlink() and folder.name != "__pycache__":
                yield folder


def modules(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.py") if path.stem != "__init__")


def crowded(root: Path) -> list[str]:
    """The folders with more modules than the limit, each with their number; folders of content are left out."""
    counts = {folder.relative_to(root).as_posix(): len(modules(folder)) for folder in folders(root)}
    return [f"{name}: {count}" for name, count in counts.items() if count > LIMIT and name not in CONTENT]


def test_no_folder_grows_past_fifteen_modules() -> None:
    assert crowded(ROOT) == []


@pytest.mark.parametrize(("name", "reported"), [("reports/tables", True), ("signals", False), ("exitbench", True)])
def test_a_sixteenth_module_is_reported(tmp_path: Path, name: str, reported: bool) -> None:
    (tmp_path / name).mkdir(parents=True)
    for number in range(15):
        (tmp_path / name / f"module_{number}.py").touch()
    (tmp_path / name / "__init__.py").touch()
    assert crowded(tmp_path) == []
    (tmp_path / name / "one_more.py").touch()
    assert crowded(tmp_path) == ([f"{name}: 16"] if reported else [])


def test_the_folder_of_signals_holds_signals_and_three_folders_of_machinery() -> None:
    inside = {path.name for path in (ROOT / "signals").iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert inside == MACHINERY
    files = {path.name for path in (ROOT / "signals").iterdir() if path.is_file()}
    assert files == {f"{name}.py" for name in modules(ROOT / "signals")} | {"__init__.py"} | (files & {"__init__.pyi"})


@pytest.mark.parametrize("name", modules(ROOT / "signals"))
def test_a_file_of_the_folder_of_signals_is_one_signal(name: str) -> None:
    module = importlib.import_module(f"exitbench.signals.{name}")
    classes = [value for value in vars(module).values() if isinstance(value, type) and issubclass(value, ExitSignal)]
    assert len([kind for kind in classes if kind.__module__ == module.__name__ and "name" in vars(kind)]) == 1


@pytest.mark.parametrize("name", modules(ROOT / "exitbench/cli/verbs"))
def test_a_file_of_the_folder_of_verbs_is_one_verb(name: str) -> None:
    assert callable(importlib.import_module(f"exitbench.cli.verbs.{name}").command)


def public_names(root: Path) -> dict[str, list[str]]:
    """Public classes and functions of the rooms' modules, with the files that define them."""
    names: dict[str, list[str]] = {}
    for folder in folders(root):
        if folder.relative_to(root).parts[:2] == ("benchmarks", "speed") or folder.name == "templates":
            continue
        for file in sorted(folder.glob("*.py")):
            for node in ast.parse(file.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                    names.setdefault(node.name, []).append(file.relative_to(root).as_posix())
    return names


@pytest.mark.long
def test_a_name_means_one_thing_in_all_rooms() -> None:
    """A second thing of the same name sends a reader to the wrong file: give it a name of its own."""
    shared = {name: files for name, files in public_names(ROOT).items() if len(files) > 1}
    assert shared == {"command": shared["command"]}, "only verbs share a name: each file's command"


def test_helpers_of_tests_are_imported_by_their_full_name() -> None:
    helpers = {path.stem for path in (ROOT / "tests/support").glob("*.py")}
    for file in (ROOT / "tests").rglob("*.py"):
        for line in file.read_text(encoding="utf-8").splitlines():
            match line.split():
                case ["from" | "import", name, *_]:
                    assert name.split(".")[0] not in helpers, f"{file}: {line}"


NAMES_THAT_SAY_NOTHING = {"one", "found", "place", "told", "data2", "helper", "manager", "utils"}


def bound_names(source: str) -> list[str]:
    """Every name that a piece of Python binds: variables, parameters, functions and classes."""
    names = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.append(node.id)
        elif isinstance(node, ast.arg):
            names.append(node.arg)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.append(node.name)
    return names


def test_a_name_says_what_a_thing_is() -> None:
    empty = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in (*folders(ROOT), ROOT / "scripts", ROOT / "scripts/docs_site")
        for path in folder.glob("*.py")
        for name in bound_names(path.read_text(encoding="utf-8"))
        if name in NAMES_THAT_SAY_NOTHING
    ]
    assert empty == []


def test_every_way_of_binding_a_name_is_seen() -> None:
    source = "class a:\n  def b(self, c): pass\nfor d in (): e = [f for f in ()]\nlambda g: 0\nh, *i = 1, 2"
    assert sorted(bound_names(source)) == ["a", "b", "c", "d", "e", "f", "g", "h", "i", "self"]
