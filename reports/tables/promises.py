"""The table of what can be promised: certified speed-ups, per cache and signal."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import within_harm
from exitbench.benchmarks.results.vocabulary import (
    CERTIFIED,
    CERTIFIED_SPEED_UP,
    PROMISED_CONFIDENCE,
    PROMISED_HARMS,
)
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.tables.cells import ratio
from exitbench.reports.tables.table import Cell, Table, TableColumn
from exitbench.reports.tables.table_parts import entry_rows, finished

NOTES = (
    f"Protocol: {CERTIFIED}. Half of the rows chose the parameters and the path of thresholds; the other half "
    "certified the fastest one by learn then test with the exact binomial test. Where nothing is promised: do not "
    "exit.",
    "It holds for rows drawn as these were, answered by the same network with the same preprocessing.",
    "Each cell is a promise by itself: taking the best of a column is a look at several, which `exitbench threshold "
    "--guarantee` with several signals accounts for.",
)
F1_NOTE = "Harm is about rows, as accuracy is: F1 is no mean over rows, and nothing is promised of it ({tasks})."


def promise_tables(run: FinishedRun) -> list[Table]:
    """One table per model; none of a run that promised nothing."""
    return [promise_table(run, group) for group in run.groups] if run.protocols else []


def promise_table(run: FinishedRun, group: Group) -> Table:
    """The certified speed-up of every signal for each harm and cache."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            ratio(run.row(cache, CERTIFIED, signal, parameters, CERTIFIED_SPEED_UP, within_harm(harm)))
            for harm in PROMISED_HARMS
            for cache in group.caches
        ]

    columns = [
        TableColumn(
            title=run.task_heading(cache),
            group=f"harm at most {harm:g} point{'' if harm == 1 else 's'}",
            measure=CERTIFIED_SPEED_UP,
            better="higher",
        )
        for harm in PROMISED_HARMS
        for cache in group.caches
    ]
    by_f1 = [run.task_heading(cache) for cache in group.caches if cache.is_f1]
    table = Table(
        name=table_name(run, "promises", group=group),
        title=f"What can be promised with {PROMISED_CONFIDENCE:.0%} confidence ({run.group_title(group)})",
        question="How fast may it get if at most so many right answers of the last layer may be lost?",
        topic="promises",
        columns=(TableColumn("Signal"), *columns),
        rows=tuple(entry_rows(run, cells)),
        notes=(*NOTES, *([F1_NOTE.format(tasks=", ".join(by_f1))] if by_f1 else [])),
        model=group.model,
    )
    return finished(run, table)
