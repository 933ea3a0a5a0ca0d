"""The committed ratios, and whether a measured one may stand beside them."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

from exitbench.benchmarks.speed.harness.ratios import Measured
from exitbench.benchmarks.speed.harness.rows import PAST_GOAL, SpeedRow

RATIOS = Path(__file__).parents[1] / "ratios.json"
HOW_TO_UPDATE = "run with --update-ratios if it is meant"


@dataclass(frozen=True)
class Committed:
    """The ratios of an earlier run by row name, and the machine they were measured on."""

    rows: Mapping[str, Measured] = field(default_factory=dict)
    machine: Mapping[str, str] = field(default_factory=dict)

    def updated(
        self, rows: Iterable[SpeedRow], measured: Mapping[str, Measured], machine: Mapping[str, str]
    ) -> Committed:
        """With what was found, in the order of ``rows``; what is no row any more is left out."""
        merged = {**self.rows, **measured}
        return Committed({row.name: merged[row.name] for row in rows if row.name in merged}, machine)

    def to_json(self) -> str:
        rows = {name: {"ratio": measured.value, "detail": measured.detail} for name, measured in self.rows.items()}
        return json.dumps({"machine": dict(self.machine), "rows": rows}, indent=1, ensure_ascii=False) + "\n"


def read_committed(path: Path = RATIOS) -> Committed:
    """The committed ratios; none if there is no such file yet."""
    if not path.exists():
        return Committed()
    stored = json.loads(path.read_text(encoding="utf-8"))
    rows = {name: Measured(float(row["ratio"]), str(row["detail"])) for name, row in stored["rows"].items()}
    return Committed(rows, stored["machine"])


def write_committed(committed: Committed, path: Path = RATIOS) -> None:
    """Write the file, ratios with four digits: more would only make the differences of two versions hard to read."""
    rounded = {
        name: Measured(float(f"{measured.value:.4g}"), measured.detail) for name, measured in committed.rows.items()
    }
    path.write_text(Committed(rounded, committed.machine).to_json(), encoding="utf-8")


def complaint(row: SpeedRow, ratio: float, committed: Committed) -> str:
    """Why this ratio is no good, in one line; empty if it is.

    A ratio is refused that is worse than the committed one by more than the row's margin, that loses a goal which the
    committed one meets, and that is not committed at all. A goal that was not met before is not asked for again.
    """
    if row.name not in committed.rows:
        return f"{row.name}: a new row, {row.text(ratio)} measured; {HOW_TO_UPDATE}"
    before = committed.rows[row.name].value
    worse = row.worse_by(ratio, before)
    if worse > row.margin:
        return (
            f"{row.name}: {row.text(ratio)}, worse than the committed {row.text(before)} by {worse:.0%}, "
            f"and {row.margin:.0%} are allowed"
        )
    if row.goal is not None and row.meets_goal(before) and row.worse_by(ratio, row.goal) > PAST_GOAL:
        return f"{row.name}: {row.text(ratio)}, the goal is {row.goal_text}, which the committed {row.text(before)} met"
    return ""


def orphans(rows: Mapping[str, SpeedRow], committed: Committed) -> list[str]:
    """Ratios that are committed and that no benchmark measures any more, one line each."""
    return [
        f"{name}: committed, but no benchmark measures it; {HOW_TO_UPDATE}"
        for name in committed.rows
        if name not in rows
    ]


def unexplained(rows: Mapping[str, SpeedRow], committed: Committed) -> list[str]:
    """Rows whose committed ratio misses the goal while nothing says what limits it."""
    return [
        f"{name}: {rows[name].text(held.value)} misses the goal, {rows[name].goal_text}, and its limit is not explained"
        for name, held in committed.rows.items()
        if name in rows and not rows[name].meets_goal(held.value) and not rows[name].limit
    ]


def this_machine() -> dict[str, str]:
    """What ratios may depend on, in a few words; nothing that names the machine."""
    names = Path("/proc/cpuinfo")
    lines = names.read_text(encoding="utf-8").splitlines() if names.exists() else []
    model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    return {
        "processor": model,
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        **{name: version(name) for name in ("torch", "numpy", "scikit-learn", "typer")},
    }
