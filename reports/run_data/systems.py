"""The systems of the paper's main table and what is run for each here, from ``fixtures/published/systems.toml``."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from exitbench.bracketed_text import split_outside
from exitbench.places import PUBLISHED
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

FILE = "systems.toml"


@dataclass(frozen=True)
class SystemForm:
    """One way to run a system: its signal, on which networks, what of the system that is, and where it differs."""

    ours: str
    signal: str
    differs: str
    recipes: tuple[str, ...] = ()
    method: str = ""

    @property
    def needs(self) -> str:
        """What a run must have to show this form."""
        if self.recipes:
            return f"{self.signal} on a network trained by {' or '.join(self.recipes)}"
        return f"{self.signal} on a cache derived by {self.method}" if self.method else self.signal

    def entry_of(self, entries: Sequence[RunEntry]) -> RunEntry | None:
        """The first entry of a run with this signal and these parameters."""
        name, _, inside = self.signal.partition("[")
        wanted = [part.split("=", 1) for part in split_outside(inside.removesuffix("]"), ",") if part]
        for entry in entries:
            if entry.signal == name and all(entry.settings.get(key) == value for key, value in wanted):
                return entry
        return None

    def is_on(self, cache: CacheMetadata, entry: RunEntry) -> bool:
        """Whether a cache is of the networks that this form is about, and the entry can run there."""
        trained = not self.recipes or cache.recipe.partition("[")[0] in self.recipes
        derived = cache.method.partition("[")[0] == self.method
        return trained and derived and (entry.signal, entry.parameters) not in cache.left_out


@dataclass(frozen=True)
class PaperSystem:
    """A system of the main table with its forms, the closest first."""

    name: str
    forms: tuple[SystemForm, ...]

    @property
    def least_needs(self) -> list[str]:
        """What a run must have to show any form; one that asks for a network is left out where any network will do."""
        anywhere = {form.signal for form in self.forms if form.needs == form.signal}
        return [form.needs for form in self.forms if form.needs == form.signal or form.signal not in anywhere]


@dataclass(frozen=True)
class SystemWithoutRow:
    """A system that the paper names and that cannot be run here, and why."""

    name: str
    reason: str


def paper_systems() -> tuple[PaperSystem, ...]:
    """Every system of the main table in its order; none where the fixtures are not on this machine."""
    return tuple(
        PaperSystem(system["name"], tuple(SystemForm(**form_fields(form)) for form in system["form"]))
        for system in systems_file().get("system", [])
    )


def systems_without_row() -> tuple[SystemWithoutRow, ...]:
    """The systems that the paper names and that have no row."""
    return tuple(SystemWithoutRow(**system) for system in systems_file().get("no_row", []))


def form_fields(form: dict[str, Any]) -> dict[str, Any]:
    """The fields of a form, lists as tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in form.items()}


@lru_cache
def systems_file() -> dict[str, Any]:
    """What the file says."""
    path = PUBLISHED / FILE
    return tomllib.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
