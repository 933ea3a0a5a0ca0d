"""The names of signals as their files declare them, read without loading a file: a mistyped name is refused at once.

Loading the signals loads torch, which takes longer than everything else that a wrong word needs.
"""

from __future__ import annotations

import ast
import importlib.metadata
import importlib.util
import re
from collections.abc import Sequence
from pathlib import Path

from exitbench.errors import InputError, did_you_mean

GROUP = "exitbench.signals"
NAME = re.compile(r"""^    name\b[^=\n]*=\s*["']([^"'\n]+)["']""", re.MULTILINE)


def refuse_unknown_names(texts: Sequence[str], directories: Sequence[Path | str] = ()) -> None:
    """Raise InputError for a text that begins with a name that no file declares; nothing where that cannot be told.

    Installed packages and files that compute a name are only known once they are loaded.
    """
    if importlib.metadata.entry_points(group=GROUP):
        return
    package = importlib.util.find_spec(GROUP)
    if package is None or package.origin is None:
        return
    files = [
        path
        for directory in (Path(package.origin).parent, *map(Path, directories))
        for path in sorted(directory.glob("*.py"))
        if not path.name.startswith(("_", "test_")) and path.name != "conftest.py"
    ]
    wanted = dict.fromkeys(text.partition("[")[0].strip() for text in texts)
    if wanted.keys() <= {name for path in files for name in written_names(path)}:
        return
    names: set[str] = set()
    for path in files:
        declared = declared_names(path)
        if declared is None:
            return
        names |= declared
    for name in wanted:
        if name not in names:
            known = ", ".join(sorted(names))
            raise InputError(f"unknown signal {name!r}.{did_you_mean(name.lower(), names)} Known: {known}.")


def written_names(path: Path) -> list[str]:
    """What a file seems to declare, found by a look at its text: enough where every name is found."""
    try:
        return NAME.findall(path.read_text(encoding="utf-8", errors="replace"))
    except OSError:
        return []


def declared_names(path: Path) -> set[str] | None:
    """The texts that the classes of a file have as ``name``; None where there is none, or one is not a plain text."""
    try:
        tree = ast.parse(path.read_bytes())
    except (OSError, ValueError, SyntaxError, RecursionError):
        return None
    names: set[str] = set()
    for node in tree.body:
        for statement in node.body if isinstance(node, ast.ClassDef) else ():
            target: ast.expr | None = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
                target = statement.targets[0]
            if not isinstance(target, ast.Name) or target.id != "name":
                continue
            value = statement.value if isinstance(statement, ast.AnnAssign | ast.Assign) else None
            if not isinstance(value, ast.Constant) or not isinstance(value.value, str):
                return None
            names.add(value.value)
    return names or None
