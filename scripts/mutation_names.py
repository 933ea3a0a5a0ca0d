"""Which tests to ask about a mutant: those of the module's own name first, then others that name what is around it.

Among them those whose own text names the changed function come first, and ``long`` ones last.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cache
from inspect import getsource
from pathlib import Path
from typing import Any

from mutants import Mutant

LOOKED_AT = ("tests/cache", "tests/signals", "tests/benchmarks", "tests/*.py", "tests/cli/test_[cfpuw]*.py")
MODULES = ("exitbench/cache", "exitbench/signals", "exitbench/benchmarks")
LEFT_OUT = ("tests/benchmarks/speed", "tests/test_rooms.py", "tests/test_habits.py")
"""Tests of other things than what the code does."""

FILES, OWN, OTHERS = 6, 6.0, 4.0
"""How many other files are asked, and the processor seconds of the module's own tests and of all others together."""

COMMON = ("score", "step", "fit", "text", "rows", "of", "__init__", "__post_init__")
"""Names that many classes share, and that tell nothing."""


def names_around(source: str, line: int) -> list[str]:
    """The functions and classes that a line lies in, the innermost first; none for a line of the module itself."""
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return [node.name for node in sorted(nodes, key=lambda node: -node.lineno)]


def own_files(tree: Path, file: str) -> list[str]:
    """A module with its examples, and the test file of its own name, as far as they are there."""
    path = Path(file)
    inside = path.parts[0] == "exitbench"
    folder = Path("tests") / path.parent.relative_to("exitbench" if inside else ".")
    own = [path if inside else "exitbench" / path, folder / f"test_{path.stem}.py"]
    return [name.as_posix() for name in own if (tree / name).is_file()]


@cache
def text_of(function: Any) -> str:
    """The source of a test; empty for an example in a docstring."""
    return getsource(function) if function is not None else ""


class Tests:
    """The tests of a tree, by what their text names."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        files = [path for pattern in LOOKED_AT for path in sorted(tree.glob(pattern))]
        tests = [test for path in files for test in (sorted(path.rglob("test_*.py")) if path.is_dir() else [path])]
        names = [test.relative_to(tree).as_posix() for test in tests]
        self.texts = {name: (tree / name).read_text() for name in names if not name.startswith(LEFT_OUT)}

    def files(self) -> list[str]:
        """What pytest collects."""
        return [*self.texts, *MODULES]

    def words(self, mutant: Mutant) -> list[str]:
        """The module's name and the names around a change."""
        stem = Path(mutant.file).stem
        around = names_around((self.tree / mutant.file).read_text(), mutant.line)
        return [*(name for name in around if name not in COMMON), stem, stem.replace("_", "-")]

    def others(self, mutant: Mutant, most: int = FILES) -> list[str]:
        """Other test files that name most of the words, those of the same folder first."""
        own = own_files(self.tree, mutant.file)
        pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in self.words(mutant)))
        room = f"/{Path(mutant.file).parent.name}/"
        counts = {file: len({*pattern.findall(text)}) for file, text in self.texts.items() if file not in own}
        files = sorted((file for file in counts if counts[file]), key=lambda file: (-counts[file], room not in file))
        return files[:most]

    def groups(self, mutant: Mutant, items: Sequence[Any]) -> list[tuple[list[Any], float]]:
        """Collected tests in the order to ask them: the own ones and others, each with processor seconds for all."""
        words = self.words(mutant)

        def eagerness(item: Any) -> tuple[int, bool]:
            text = text_of(getattr(item, "function", None))
            named = next((number for number, word in enumerate(words) if word in text), len(words))
            return named, item.get_closest_marker("long") is not None

        groups = []
        for files, seconds in ((own_files(self.tree, mutant.file), OWN), (self.others(mutant), OTHERS)):
            chosen = [item for item in items if item.nodeid.partition("::")[0] in files]
            groups.append((sorted(chosen, key=eagerness), seconds))
        return groups
