"""Which tests to ask about a mutant, by names alone: quick to begin with, where coverage takes a quarter of an hour.

The test file of the module's own name comes first, with the module's examples; then files that name the function or
class around the change, then files that import the module, quick ones first, for some seconds of processor time.
"""

from __future__ import annotations

import ast
import json
import math
import re
from collections.abc import Callable
from pathlib import Path

from mutants import Mutant

OTHERS, OWN = 6.0, 40.0
"""Processor seconds of all other files together, and of a file of the module's own name, if they are asked at all."""


def names_around(source: str, line: int) -> list[str]:
    """The functions and classes that a line lies in, the innermost first; none for a line of the module itself."""
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return [node.name for node in sorted(nodes, key=lambda node: -node.lineno)]


class ByName:
    """Test files by what their text names; ``cpu_seconds`` of a file are measured when it is first considered."""

    def __init__(self, tree: Path, kept: Path, measure: Callable[[Path, str, float], float]) -> None:
        self.tree, self.measure, self.store = tree, measure, kept / "cpu_seconds.json"
        kept.mkdir(exist_ok=True)
        self.seconds: dict[str, float] = json.loads(self.store.read_text()) if self.store.exists() else {}
        self.texts = {path.relative_to(tree).as_posix(): path.read_text() for path in tree.glob("tests/**/test_*.py")}

    def cpu_seconds(self, file: str, limit: float = OTHERS) -> float:
        """What the tests of a file take in the unchanged tree; infinite if they do not pass there within ``limit``."""
        if file not in self.seconds or (limit > OTHERS and self.seconds[file] == math.inf):
            self.seconds[file] = self.measure(self.tree, file, limit)
            self.store.write_text(json.dumps(self.seconds))
        return self.seconds[file]

    def groups(self, mutant: Mutant, own: list[str]) -> list[list[str]]:
        """The test files of the mirror, and then others that can be asked in time."""
        mirror = [file for file in own if self.cpu_seconds(file, OWN) < math.inf]
        others: list[str] = []
        left = OTHERS
        for file in self._others(mutant, own):
            if left <= 0:
                break
            if self.cpu_seconds(file) < left:
                others.append(file)
                left -= self.cpu_seconds(file)
        return [files for files in (mirror, others) if files]

    def limit(self, files: list[str]) -> int:
        """Processor seconds after which tests have noticed something."""
        return 10 + int(3 * sum(map(self.cpu_seconds, files)))

    def _others(self, mutant: Mutant, own: list[str]) -> list[str]:
        stem = Path(mutant.file).stem
        around = names_around((self.tree / mutant.file).read_text(), mutant.line)
        innermost = [name for name in around if not name.startswith("__")][:2]
        words = [*innermost, stem, stem.replace("_", "-")]
        room = f"tests/{Path(mutant.file).parts[-2]}/" if "/" in mutant.file else "tests/"

        def rank(file: str) -> tuple[int, bool, float]:
            named = [position for position, word in enumerate(words) if re.search(rf"\b{word}\b", self.texts[file])]
            return (min(named, default=len(words)), room not in file, self.seconds.get(file, 2.0))

        files = [file for file in self.texts if file not in own]
        return [file for file in sorted(files, key=rank) if rank(file)[0] < len(words)][:6]
