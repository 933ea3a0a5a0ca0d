"""Small tables of one task, under one protocol: what each signal does there over all questions, and in short."""

from __future__ import annotations

from collections.abc import Sequence

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up, within_loss
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE
from exitbench.reports.run_data.names import slug
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.tables.cells import dis_cell, number_cell, speed_at_loss
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import bound_table_rows, entry_rows, finished, foot_rows, says_something
from exitbench.reports.tables.task_scores import score_cell


def task_name(cache: CacheMetadata) -> str:
    """What the table of a task is called."""
    return f"task-{slug(cache.name)}"


def task_table(run: FinishedRun, cache: CacheMetadata, protocol: str) -> Table:
    """DIS at the suite's layers, rates, score at the primary speed-up, and the largest speed-ups, of one cache."""
    primary, fast = float(run.suite["primary_speed_up"]), float(run.suite["rates_speed_up"])
    losses = [float(loss) for loss in run.suite["losses"]]
    columns = [
        TableColumn("Signal"),
        TableColumn(
            title=f"near {primary:g}×",
            group=f"{cache.measure_title} (speed-up)",
            measure=cache.measure,
            better="higher",
        ),
        *(
            TableColumn(title=f"layer {layer}", group="DIS", measure="dis", better="higher")
            for layer in cache.table_layers
        ),
        TableColumn(title="premature", group=f"Exit rates near {fast:g}×", measure="premature_rate", better="lower"),
        TableColumn(title="delayed", group=f"Exit rates near {fast:g}×", measure="delayed_rate", better="lower"),
        *(
            TableColumn(title=f"loss {loss:g}", group="Largest speed-up", measure="max_speed_up", better="higher")
            for loss in losses
        ),
    ]

    def cells(signal: str, parameters: str) -> list[Cell]:
        def number(
            measure: str, point: OperatingPoint = NOWHERE, layer: int | None = None, decisions: str = ""
        ) -> Cell:
            return number_cell(run.row(cache, protocol, signal, parameters, measure, point, layer, decisions))

        ranks = [
            dis_cell(
                run.row(cache, protocol, signal, parameters, "dis", NOWHERE, layer),
                run.row(cache, protocol, signal, parameters, "tied_share", NOWHERE, layer),
            )
            for layer in cache.table_layers
        ]
        rates = [number(f"{kind}_rate", at_speed_up(fast), None, "all") for kind in ("premature", "delayed")]
        largest = [
            speed_at_loss(
                run.row(cache, protocol, signal, parameters, "max_speed_up", within_loss(loss)),
                run.row(cache, protocol, signal, parameters, "realised_loss", within_loss(loss)),
            )
            for loss in losses
        ]
        return [score_cell(run, cache, protocol, signal, parameters, at_speed_up(primary)), *ranks, *rates, *largest]

    rows = entry_rows(run, cells) + bound_table_rows(run, ("fixed", "random", "oracle", "final"), cells)
    rows += foot_rows(run, cells)
    table = Table(
        name=task_name(cache),
        title=f"{task_with_model(run, cache)}, {protocol}",
        question="What does each signal do on this task?",
        topic="tasks",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(DIS_NOTE, "Rates over all decisions."),
        protocol=protocol,
        model=cache.model,
    )
    return finished(run, table, Group(cache.model, cache.split, (cache,)))


def task_tables(run: FinishedRun, caches: Sequence[CacheMetadata] | None = None) -> list[Table]:
    """The tables of some tasks, by default of all, each under the protocol that it is read under first."""
    chosen = run.caches if caches is None else caches
    tables = (task_table(run, cache, run.leading_protocol([cache])) for cache in chosen)
    return [table for table in tables if says_something(table)]


def summary_table(run: FinishedRun, cache: CacheMetadata, protocol: str) -> Table:
    """What fits a terminal of 80 columns: DIS at the suite's layers, rates, score and speed-up at the primary one."""
    primary, fast = float(run.suite["primary_speed_up"]), float(run.suite["rates_speed_up"])
    measure = cache.measure
    columns = [
        *(
            (TableColumn(title=f"{layer}", group="DIS", measure="dis", better="higher"), NOWHERE, layer, "")
            for layer in cache.table_layers
        ),
        (
            TableColumn(title="prem.", group=f"{fast:g}×", measure="premature_rate", better="lower"),
            at_speed_up(fast),
            None,
            "all",
        ),
        (
            TableColumn(title="del.", group=f"{fast:g}×", measure="delayed_rate", better="lower"),
            at_speed_up(fast),
            None,
            "all",
        ),
        (
            TableColumn(title=measure, group=f"{primary:g}×", measure=measure, better="higher"),
            at_speed_up(primary),
            None,
            "",
        ),
        (TableColumn(title="at", group=f"{primary:g}×", measure="speed_up"), at_speed_up(primary), None, ""),
    ]

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, column.measure, point, layer, decisions))
            for column, point, layer, decisions in columns
        ]

    rows = [
        TableRow((label(entry.text), *cells(entry.signal, entry.parameters)), signal=entry.signal)
        for entry in run.entries
        if (entry.signal, entry.parameters) not in cache.left_out
    ]
    rows += bound_table_rows(run, ("fixed",), cells)
    rows += foot_rows(run, cells)
    return Table(
        name=f"summary-{slug(cache.name)}",
        title=f"{run.task_title(cache)}, {cache.model}, {cache.rows} samples, {protocol}",
        question="What does each signal do on this task?",
        topic="tasks",
        columns=(TableColumn(title="signal"), *(column for column, *_ in columns)),
        rows=tuple(rows),
        protocol=protocol,
        model=cache.model,
    )
