"""How a verb walks through the modules: ``python scripts/trace_walk.py run smoke --jobs 1 --force``.

Counted are distinct pairs of modules (an *edge*: caller, callee) between which a function of one exitbench module
called a function of another while the verb ran, in this process; what runs while modules are imported is left out, and
so are calls that other libraries pass on. An edge goes *back* when the callee had been entered before the caller, and
is *mutual* when both directions happened. A walk that goes forward is one that a reader can follow; what a verb's words
are is up to you, and where it writes, too.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
ROOMS = ("exitbench", "signals", "benchmarks", "reports")


@dataclass
class Walk:
    """The modules in order of first entry, and the edges between them."""

    entered: dict[str, int] = field(default_factory=dict)
    edges: dict[tuple[str, str], None] = field(default_factory=dict)
    modules: dict[str, str | None] = field(default_factory=dict)
    imports: int = 0

    def profile(self, frame: FrameType, event: str, argument: Any) -> None:
        """What ``sys.setprofile`` calls at every call of a Python function and at every return."""
        if frame.f_code.co_name == "<module>":  # an import, and what it calls on its way
            self.imports += {"call": 1, "return": -1}.get(event, 0)
        elif event == "call" and not self.imports and (callee := self.module(frame)) is not None:
            self.entered.setdefault(callee, len(self.entered))
            caller = None if frame.f_back is None else self.module(frame.f_back)
            if caller is not None and caller != callee:
                self.edges.setdefault((caller, callee))
                self.entered.setdefault(caller, len(self.entered))

    def module(self, frame: FrameType) -> str | None:
        """The exitbench module that a frame's code was written in, or ``None`` for another library's."""
        file = frame.f_code.co_filename
        if file not in self.modules:
            path = Path(file).resolve()
            inside = path.is_relative_to(PACKAGE) and path.relative_to(PACKAGE).parts[0] in ROOMS
            self.modules[file] = path.relative_to(PACKAGE).as_posix() if inside else None
        return self.modules[file]

    @property
    def back(self) -> list[tuple[str, str]]:
        """The edges whose callee had been entered before their caller."""
        return [(caller, callee) for caller, callee in self.edges if self.entered[callee] < self.entered[caller]]

    @property
    def mutual(self) -> int:
        """The pairs of modules with edges in both directions."""
        return sum((callee, caller) in self.edges for caller, callee in self.edges) // 2


def traced(words: list[str]) -> Walk:
    """The walk of ``exitbench WORDS``."""
    from exitbench.cli.app import main

    walk = Walk()
    sys.setprofile(walk.profile)
    try:
        main(words)
    except SystemExit as ended:
        if ended.code not in (None, 0):
            raise
    finally:
        sys.setprofile(None)
    return walk


def report(walk: Walk) -> str:
    """The counts, the modules by how many edges come back to them, and the way in order of first entry."""
    returns: dict[str, int] = {}
    for _, callee in walk.back:
        returns[callee] = returns.get(callee, 0) + 1
    most = sorted(returns.items(), key=lambda item: -item[1])[:15]
    return "\n".join(
        [
            f"modules {len(walk.entered)}, edges {len(walk.edges)}, back {len(walk.back)} "
            f"({len(walk.back) / max(1, len(walk.edges)):.0%}), mutual {walk.mutual}",
            "most returned to: " + ", ".join(f"{module} {count}" for module, count in most),
            *(f"{number + 1:4d} {module}" for module, number in walk.entered.items()),
        ]
    )


if __name__ == "__main__":
    sys.stdout.write(report(traced(sys.argv[1:])) + "\n")
