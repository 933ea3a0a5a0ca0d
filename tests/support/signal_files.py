"""A file with a signal of a user's own, for the tests of discovery and of declarations."""

from pathlib import Path

SIGNAL = """
from dataclasses import dataclass
from typing import ClassVar

from exitbench import Direction, ExitSignal, Input, Layer, Reference, Tensor


@dataclass(frozen=True)
class Mine(ExitSignal):
    name: ClassVar[str] = "{name}"
    title: ClassVar[str] = "Mine"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[Direction] = ">"
    inputs: ClassVar[frozenset[Input]] = frozenset({{"logits"}})

    def score(self, layer: Layer) -> Tensor:
        return layer.logits64.amax(dim=1)
"""


def write_signal(path: Path, name: str, first_lines: str = "") -> Path:
    """Write the signal under a name, after some first lines of code."""
    path.write_text(first_lines + SIGNAL.format(name=name))
    return path
