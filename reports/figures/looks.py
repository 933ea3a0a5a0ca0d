"""What all figures share: what one is named by, and how every entry looks, on paper and in the browser."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from exitbench.reports.figures.style import line_style, marker, shades, shortened
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

MOST_BANDS = 12
"""With more signals than this, their bands would be one dark field; the tables have the intervals."""


@dataclass(frozen=True)
class FigureSpec:
    """Plain values that name a figure: its kind, protocol, and a cache or the number of a group and an entry."""

    kind: str
    protocol: str
    cache: str = ""
    group: int = 0
    entry: int = 0


@dataclass(frozen=True)
class Look:
    """How one entry is drawn."""

    entry: RunEntry
    label: str
    colour: str
    marker: str
    line: Any
    shift: float = 0.0
    """Points by which its markers move aside, so that identical entries can all be seen."""

    @property
    def size(self) -> float:
        """The marker's size; a star of equal size looks smaller than a square."""
        return 10.0 if self.marker == "*" else 7.0


def looks_of(run: FinishedRun, cache: CacheMetadata | None = None, protocol: str = "") -> list[Look]:
    """The look of every entry; entries that agree in every number share a line in alternating dashes."""
    seen: dict[str, int] = {}
    tints = {
        entry.signal: shades(entry.signal, sum(other.signal == entry.signal for other in run.entries))
        for entry in run.entries
    }
    twins: dict[tuple[str, str], tuple[int, int]] = {}
    for twin in () if cache is None else run.identical_on([cache], protocol):
        twins |= {member: (number, len(twin.members)) for number, member in enumerate(twin.members)}
    looks = []
    for entry in run.entries:
        repeat = seen.get(entry.signal, 0)
        seen[entry.signal] = repeat + 1
        line: Any = line_style(repeat)
        shift = 0.0
        if (entry.signal, entry.parameters) in twins:
            number, count = twins[entry.signal, entry.parameters]
            line = (number * 4, (4, 4 * (count - 1)))
            shift = 7.0 * (number - (count - 1) / 2)
        label = shortened(run.label(entry.signal, entry.parameters))
        looks.append(
            Look(
                entry=entry,
                label=label,
                colour=tints[entry.signal][repeat],
                marker=marker(entry.signal),
                line=line,
                shift=shift,
            )
        )
    return looks
