"""Which tests to ask about a mutant, by names alone: quick to begin with, where coverage takes a quarter of an hour.

The test file of the module's own name comes first, with the module's examples; then the files that
name most of the module and of the functions and classes around the change, for some seconds of processor time.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

from mutants import Mutant

FILES, OWN, OTHERS = 6, 15, 8
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
        words = {stem, stem.replace("_", "-"), *(name for name in around if name not in COMMON)}
        pattern = re.compile("|".join(rf"\b{re.escape(word)}\b" for word in words))
        room = f"/{Path(mutant.file).parent.name}/"
        counts = {file: len({*pattern.findall(text)}) for file, text in self.texts.items() if file not in own}
        files = sorted((file for file in counts if counts[file]), key=lambda file: (-counts[file], room not in file))
        return files[:FILES]
