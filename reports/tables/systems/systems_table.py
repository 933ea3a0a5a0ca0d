"""Every system of the paper's main table by name: what of it is here, on which network, and its score near 2x.

What is run for a system is data (``run_data.systems``). A run shows each system in the closest form that it has, on all
networks of that form; one that it cannot show keeps a row that says what is missing.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from exitbench.benchmarks.results.operating_point import FINAL, at_speed_up
from exitbench.printable import printable
from exitbench.reports.run_data import published
from exitbench.reports.run_data.finished_run import TASK_TITLES, FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.run_data.systems import PaperSystem, SystemForm, paper_systems, systems_without_row
from exitbench.reports.tables.cells import number_cell, published_cell
from exitbench.reports.tables.published_forms import form_notes
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import cache_notes, notes_of
from exitbench.reports.tables.task_scores import score_cell

NOT_COMPARED = (
    "Rows are of different networks and not compared with each other; published rows are copied from the paper: "
    "another backbone, another training, another test set."
)


@dataclass(frozen=True)
class SystemHere:
    """A system in the form that a run shows it, and the caches of one model that show it."""

    form: SystemForm
    entry: RunEntry
    group: Group


def systems_tables(run: FinishedRun) -> list[Table]:
    """One table per protocol; none where the run has no form of any system."""
    tables = [systems_table(run, protocol) for protocol in run.protocols]
    return [table for table in tables if any(row.kind == "signal" and row.signal for row in table.rows)]


def systems_table(run: FinishedRun, protocol: str) -> Table:
    """A row for each system and model that shows it, or one that says what is missing; the published row behind."""
    speed = float(run.suite["primary_speed_up"])
    headings = network_headings(run.groups_under(protocol))
    rows: list[TableRow] = []
    notes = [f"Cells: score (speed-up), and the score of the last layer. Protocol: {protocol}.", NOT_COMPARED]
    notes += cache_notes(run, None)
    for system in paper_systems():
        shown = shown_as(run, protocol, system)
        rows += [here_row(run, protocol, system, each, headings) for each in shown] or [absent_row(system, headings)]
        rows += published_rows(system, headings) if speed == 2 else []
        notes += [f"{system.name}, {each.form.ours}: {each.form.differs}." for each in shown[:1]]
    notes += form_notes(run.entries) if any(row.kind == "published" for row in rows) else []
    notes += [f"{system.name} has no row: {system.reason}." for system in systems_without_row()]
    return Table(
        name=table_name(run, "systems", protocol=protocol),
        title=f"Systems of the paper's main table near {speed:g}× ({protocol})",
        question="Which systems of the paper's main table are here, and what of each?",
        topic="systems",
        columns=(
            *(TableColumn(title) for title in ("System", "Ours", "Signal", "Network")),
            *score_columns_of(run, headings, speed),
        ),
        rows=tuple(rows),
        notes=notes_of(rows, (), run, *notes),
        protocol=protocol,
    )


Heading = tuple[str, int]
"""A task, and the number of the network among those of one model that have it."""


def network_headings(groups: list[Group]) -> list[Heading]:
    """The tasks of all models, each as often as the model with most networks has it."""
    return list(dict.fromkeys(heading for group in groups for heading in by_heading(group)))


def by_heading(group: Group) -> dict[Heading, CacheMetadata]:
    """The caches of one model by task and number."""
    numbered: dict[Heading, CacheMetadata] = {}
    for cache in group.caches:
        number = 1 + sum(task == cache.task for task, _ in numbered)
        numbered[cache.task, number] = cache
    return numbered


def score_columns_of(run: FinishedRun, headings: list[Heading], speed: float) -> list[TableColumn]:
    """Two columns for each task and network: near the speed-up, and the last layer."""
    measures = {cache.task: cache.measure for cache in run.caches}
    several = {task for task, number in headings if number > 1}
    columns = []
    for task, number in headings:
        title = TASK_TITLES.get(task, task) + (" F1" if measures[task] == "f1" else "")
        group = f"{title}, network {number}" if task in several else title
        columns += [
            TableColumn(text, group=group, measure=measures[task], better="higher")
            for text in (f"near {speed:g}×", "last layer")
        ]
    return columns


def shown_as(run: FinishedRun, protocol: str, system: PaperSystem) -> list[SystemHere]:
    """The system on the networks of its closest form that the run has; empty where it has none."""
    for form in system.forms:
        entry = form.entry_of(run.entries)
        if entry is None:
            continue
        groups = [
            replace(group, caches=tuple(cache for cache in group.caches if form.is_on(cache, entry)))
            for group in run.groups_under(protocol)
        ]
        here = [SystemHere(form, entry, group) for group in groups if group.caches]
        if here:
            return here
    return []


def here_row(
    run: FinishedRun, protocol: str, system: PaperSystem, here: SystemHere, headings: list[Heading]
) -> TableRow:
    """The scores of a system on the networks of one model."""
    point = at_speed_up(float(run.suite["primary_speed_up"]))
    caches, cells = by_heading(here.group), []
    for heading in headings:
        cache = caches.get(heading)
        if cache is None:
            cells += [missing("no network of this form on some tasks")] * 2
            continue
        score = score_cell(run, cache, protocol, here.entry.signal, here.entry.parameters, point)
        last = number_cell(run.row(cache, protocol, "final", "", cache.measure, FINAL))
        cells += [unmarked(score, cache.name), unmarked(last, cache.name)]
    labels = (
        label(system.name, here.form.differs),
        label(here.form.ours, here.form.differs),
        label(here.entry.text),
        label(printable(run.group_title(here.group))),
    )
    return TableRow((*labels, *cells), signal=here.entry.signal)


def unmarked(cell: Cell, cache: str) -> Cell:
    """A cell without the marks of a contest, which its row here does not take part in; the cache's name on hover."""
    return replace(cell, best=False, tied=False, notes=(*cell.notes, printable(cache)))


def absent_row(system: PaperSystem, headings: list[Heading]) -> TableRow:
    """A system that the run cannot show: which signals and networks would."""
    reason = f"not in this run, which would need {', or '.join(system.least_needs)}"
    labels = map(label, (system.name, "not in this run", "–", "–"))
    return TableRow((*labels, *[missing(reason)] * 2 * len(headings)))


def published_rows(system: PaperSystem, headings: list[Heading]) -> list[TableRow]:
    """The paper's figures of a system and of its network without exits; none where it has none for these tasks."""
    none, cells = Cell("–", status="published"), []
    for task, _ in headings:
        title = TASK_TITLES.get(task, task)
        for method in (system.name, published.backbone_of(published.BERT)):
            figure = published.published_score(published.BERT, method, title)
            cells.append(none if figure is None else published_cell(figure))
    if not any(cell.numbers for cell in cells[::2]):
        return []
    labels = map(label, (system.name, "published", "–", published.WHAT[published.BERT].partition(", ")[2]))
    return [TableRow((*labels, *cells), kind="published")]
