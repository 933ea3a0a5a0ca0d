"""What the numbers rest on, in a line each: the networks, and the protocol."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import PROTOCOLS
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.sentences import listed, short_name
from exitbench.reports.verdict.alert import plural

MOST_MODELS = 4
"""As many models as the line on networks describes; the others are counted."""
MOST_RECIPES = 4
"""As many recipes as it names."""


def network_line(run: FinishedRun) -> str:
    """The networks of every model: depth, tasks, how many were trained, how, and from which seeds."""
    more = len(run.groups) - MOST_MODELS
    lines = [group_line(run, group) for group in run.groups[:MOST_MODELS]]
    return "; ".join([*lines, *([f"and {plural(more, 'more model')}"] if more > 0 else [])]) + "."


def group_line(run: FinishedRun, group: Group) -> str:
    """The networks of one model."""
    records = [run.record["caches"][cache.name] for cache in group.caches]
    depths = sorted({cache.layers for cache in group.caches})
    layers = f"{depths[0]} layers" if len(depths) == 1 else f"{depths[0]} to {depths[-1]} layers"
    tasks = len({cache.task for cache in group.caches})
    rows = f"{sum(cache.rows for cache in group.caches):,} rows of the {short_name(group.split)} split"
    networks = {record.get("network") for record in records}
    known = "" if {None, ""} & networks else f", {plural(len(networks), 'network')}"
    notes = dict.fromkeys(short_name(note) for record in records if (note := record.get("network_note")))
    said = "".join(f"; {note}" for note in notes)
    return f"{short_name(group.model)}: {layers}, {plural(tasks, 'task')}{known}, {rows}, {training(records)}{said}"


def training(records: Sequence[Mapping[str, Any]]) -> str:
    """How the networks were trained, and from which seeds, as far as their caches say."""
    recipes = list(dict.fromkeys(short_name(str(recipe)) for record in records if (recipe := record.get("recipe"))))
    named = listed(recipes) if len(recipes) <= MOST_RECIPES else plural(len(recipes), "recipe")
    counts = " ".join(
        filter(None, [recorded_span(records, "epochs", "epoch"), recorded_span(records, "training_rows", "row", "on ")])
    )
    said = ", ".join(filter(None, [f"trained by {named}" if recipes else "", counts]))
    unknown = [record for record in records if not {"recipe", "epochs"} & record.keys()]
    some = " (some not recorded)" if said and unknown else ""
    return f"{said or 'training not recorded'}{some}, {seeds(records)}"


def recorded_span(records: Sequence[Mapping[str, Any]], name: str, thing: str, before: str = "") -> str:
    """A count from the least to the most, such as "1 to 2 epochs"; empty where no cache has it."""
    counts = [count for record in records if isinstance(count := record.get(name), int)]
    if not counts:
        return ""
    low, high = min(counts), max(counts)
    shown = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    return f"{before}{shown} {thing}{'' if high == 1 else 's'}"


def seeds(records: Sequence[Mapping[str, Any]]) -> str:
    """The seeds from which the networks were trained, as far as their caches say."""
    every = [record.get("network_seed") for record in records]
    named = sorted({seed for seed in every if seed is not None})
    if not named:
        return "seeds not recorded"
    some = " (some not recorded)" if None in every else ""
    return f"seed{'s' if len(named) > 1 else ''} {listed([str(seed) for seed in named])}{some}"


def protocol_line(run: FinishedRun, protocol: str) -> str:
    """How thresholds and parameters were chosen, and how sure the numbers are."""
    suite = run.suite
    how = PROTOCOLS.get(protocol, "")
    folds = f" {suite['folds']} folds." if protocol == "cross-fit" and suite.get("folds") else ""
    return (
        f"{protocol}: {how}{folds} Intervals are 95%, from {suite['resamples']} resamples; tests are paired on the "
        "same samples, with Holm's adjustment within a column."
    )
