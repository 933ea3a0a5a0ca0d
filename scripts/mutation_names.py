"""Which tests to ask about a mutant, by names alone: quick to begin with, where coverage takes a quarter of an hour.

The test file of the module's own name comes first, with the module's examples; then files that name the function or
class around the change, then files that name the module, the nearest first, for some seconds of processor time.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mutants import Mutant

FILES, OWN, OTHERS = 6, 40, 12
"""How many other files are asked, and the processor seconds of the module's own tests and of all others together."""


def names_around(source: str, line: int) -> list[str]:
    """The functions and classes that a line lies in, the innermost first; none for a line of the module itself."""
    nodes = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)) and node.lineno <= line <= (node.end_lineno or node.lineno)
    ]
    return [node.name for node in sorted(nodes, key=lambda node: -node.lineno)]


class ByName:
    """Test files by what their text names."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.texts = {path.relative_to(tree).as_posix(): path.read_text() for path in tree.glob("tests/**/test_*.py")}

    def groups(self, mutant: Mutant, own: list[str]) -> list[tuple[list[str], int]]:
        """The test files of the mirror, and then others, each group with the processor seconds it may take."""
        groups = ((own, OWN), (self._others(mutant, own), OTHERS))
        return [(files, seconds) for files, seconds in groups if files]

    def _others(self, mutant: Mutant, own: list[str]) -> list[str]:
        stem = Path(mutant.file).stem
        around = names_around((self.tree / mutant.file).read_text(), mutant.line)
        innermost = [name for name in around if not name.startswith("__")][:2]
        words = [*innermost, stem, stem.replace("_", "-")]
        room = f"/{Path(mutant.file).parent.name}/"

        def rank(file: str) -> tuple[int, bool, int]:
            text = self.texts[file]
            named = [position for position, word in enumerate(words) if re.search(rf"\b{word}\b", text)]
            return min(named, default=len(words)), room not in file, len(text)

        files = [file for file in self.texts if file not in own]
        return [file for file in sorted(files, key=rank) if rank(file)[0] < len(words)][:FILES]
