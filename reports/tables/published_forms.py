"""Which form of a signal its published figures should be compared with, and how far each form measured here is away.

Where a publication's text and its public code compute different scores, a suite may list both; the published DIS
then fits one of them better. ``fixtures/published/forms.csv`` names the form that belongs to the figures.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.published import published_dis, published_form
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import where

PUBLISHED_DEPTH = 12
"""The published DIS table names layers of networks this deep."""


def form_tables(run: FinishedRun) -> list[Table]:
    """One table per model and protocol that has published DIS beside it; none where there is nothing published."""
    tables = [form_table(run, group, protocol) for group, protocol in run.each()]
    return [table for table in tables if table.rows]


def form_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """Per entry with published DIS: how its figures are to be read, and its mean distance from them per task."""
    caches = [cache for cache in group.caches if any(is_published(run, cache, entry) for entry in run.entries)]
    entries = [entry for entry in run.entries if any(is_published(run, cache, entry) for cache in caches)]
    rows = []
    for entry in entries:
        distances = [distances_of(run, cache, protocol, entry) for cache in caches]
        every = [distance for of_cache in distances for distance in of_cache]
        cells = [distance_cell(distances_here) for distances_here in (*distances, every)]
        name = label(run.label(entry.signal, entry.parameters), entry.text)
        rows.append(TableRow((name, label(comparison_advice(entry)), *cells), kind="other", signal=entry.signal))
    headings = [*(run.task_title(cache) for cache in caches), "all"]
    return Table(
        name=table_name(run, "published-forms", group=group, protocol=protocol),
        title=f"Distance from the published DIS ({where(run, group, protocol)})",
        question="Which form of a signal do its published figures belong to?",
        topic="dis",
        columns=(
            TableColumn("Signal"),
            TableColumn("Published figures"),
            *(
                TableColumn(title=heading, group="distance", measure="published_distance", better="lower")
                for heading in headings
            ),
        ),
        rows=tuple(rows),
        notes=(*form_notes(entries), "Another backbone and another training: a small distance is no replication."),
        protocol=protocol,
        model=group.model,
    )


def is_published(run: FinishedRun, cache: CacheMetadata, entry: RunEntry) -> bool:
    """Whether the paper prints a DIS of this signal for the task and some of the layers of a cache."""
    return entry.signal not in BOUNDS and any(
        published_dis(entry.title, run.task_title(cache), layer) for layer in shared_layers(cache)
    )


def shared_layers(cache: CacheMetadata) -> tuple[int, ...]:
    """The table's layers, where the network is as deep as the published one."""
    return cache.table_layers if cache.layers == PUBLISHED_DEPTH else ()


def distances_of(run: FinishedRun, cache: CacheMetadata, protocol: str, entry: RunEntry) -> list[float]:
    """The distance between measured and published DIS at each layer that has both."""
    distances = []
    for layer in shared_layers(cache):
        figure = published_dis(entry.title, run.task_title(cache), layer)
        row = run.row(cache, protocol, entry.signal, entry.parameters, "dis", NOWHERE, layer)
        if figure is not None and row is not None and not math.isnan(row.value):
            distances.append(abs(row.value - figure.value))
    return distances


def distance_cell(distances: Sequence[float]) -> Cell:
    """The mean of some distances."""
    if not distances:
        return missing("no layer has both a measured and a published value")
    layers = f"{len(distances)} layer{'' if len(distances) == 1 else 's'}"
    return Cell(fixed(math.fsum(distances) / len(distances), 1), status="ok", notes=(f"mean over {layers}",))


def comparison_advice(entry: RunEntry) -> str:
    """Whether an entry is the form that the published figures of its method should be compared with."""
    form = published_form(entry.title)
    if form is None:
        return "the same form"
    return "compare with this form" if form.is_of(entry) else f"belong to {form.text}"


def form_notes(entries: Sequence[RunEntry]) -> list[str]:
    """For each method that a run has in another form: which form its figures should be compared with, and why."""
    forms = [published_form(title) for title in dict.fromkeys(entry.title for entry in entries)]
    return [
        f"Published figures of {form.method} should be compared with {form.text}, {form.basis}."
        for form in forms
        if form is not None and not all(form.is_of(entry) for entry in entries if entry.title == form.method)
    ]
