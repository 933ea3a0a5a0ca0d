"""Small tables of one task, under one protocol: what each signal does there over all questions, and in short."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up, within_loss
from exitbench.reports.run_data.finished_run import CacheFacts, Group, Run, own_measure
from exitbench.reports.run_data.names import slug
from exitbench.reports.run_data.provenance import place_title
from exitbench.reports.tables.cells import dis_cell, plain, ratio
from exitbench.reports.tables.table import Cell, Column, Row, Table, label
from exitbench.reports.tables.table_parts import bound_rows, entry_rows, finished
from exitbench.reports.tables.task_scores import reading


def task_table(run: Run, cache: CacheFacts, protocol: str) -> Table:
    """DIS at the suite's layers, rates, score at the primary speed-up, and the largest speed-ups, of one cache."""
    primary, fast = float(run.suite["primary_speed_up"]), float(run.suite["rates_speed_up"])
    losses = [float(loss) for loss in run.suite["losses"]]
    score = "F1" if cache.metric == "f1" else "Accuracy"
    columns = [
        Column("Signal"),
        Column(f"near {primary:g}×", f"{score} (speed-up)", own_measure(cache), "higher"),
        *(Column(f"layer {layer}", "DIS", "dis", "higher") for layer in cache.table_layers),
        Column("premature", f"Exit rates near {fast:g}×", "premature_rate", "lower"),
        Column("delayed", f"Exit rates near {fast:g}×", "delayed_rate", "lower"),
        *(Column(f"loss {loss:g}", "Largest speed-up", "max_speed_up", "higher") for loss in losses),
    ]

    def cells(signal: str, parameters: str) -> list[Cell]:
        def number(
            measure: str, point: OperatingPoint = NOWHERE, layer: int | None = None, decisions: str = ""
        ) -> Cell:
            return plain(run.row(cache, protocol, signal, parameters, measure, point, layer, decisions))

        ranks = [
            dis_cell(
                run.row(cache, protocol, signal, parameters, "dis", NOWHERE, layer),
                run.row(cache, protocol, signal, parameters, "tied_share", NOWHERE, layer),
            )
            for layer in cache.table_layers
        ]
        rates = [number(f"{kind}_rate", at_speed_up(fast), None, "all") for kind in ("premature", "delayed")]
        largest = [
            ratio(run.row(cache, protocol, signal, parameters, "max_speed_up", within_loss(loss))) for loss in losses
        ]
        return [reading(run, cache, protocol, signal, parameters, at_speed_up(primary)), *ranks, *rates, *largest]

    rows = entry_rows(run, cells) + bound_rows(run, ("random", "oracle", "final"), cells)
    table = Table(
        f"task-{slug(cache.name)}",
        f"{place_title(run, cache)}, {protocol}",
        "What does each signal do on this task?",
        "tasks",
        tuple(columns),
        tuple(rows),
        ("Rates over all decisions.",),
        protocol,
        cache.model,
    )
    return finished(run, table, Group(cache.model, cache.split, (cache,)))


def summary_table(run: Run, cache: CacheFacts, protocol: str) -> Table:
    """What fits a terminal of 80 columns: DIS at the suite's layers, rates, score and speed-up at the primary one."""
    primary, fast = float(run.suite["primary_speed_up"]), float(run.suite["rates_speed_up"])
    measure = own_measure(cache)
    columns = [
        *(
            (Column(title=f"{layer}", group="DIS", measure="dis", better="higher"), NOWHERE, layer, "")
            for layer in cache.table_layers
        ),
        (
            Column(title="prem.", group=f"{fast:g}×", measure="premature_rate", better="lower"),
            at_speed_up(fast),
            None,
            "all",
        ),
        (
            Column(title="del.", group=f"{fast:g}×", measure="delayed_rate", better="lower"),
            at_speed_up(fast),
            None,
            "all",
        ),
        (
            Column(title=measure, group=f"{primary:g}×", measure=measure, better="higher"),
            at_speed_up(primary),
            None,
            "",
        ),
        (Column(title="at", group=f"{primary:g}×", measure="speed_up"), at_speed_up(primary), None, ""),
    ]
    rows = []
    for entry in run.entries:
        cells = [
            plain(run.row(cache, protocol, entry.signal, entry.parameters, column.measure, point, layer, decisions))
            for column, point, layer, decisions in columns
        ]
        rows.append(Row((label(entry.text), *cells), signal=entry.signal))
    return Table(
        name=f"summary-{slug(cache.name)}",
        title=f"{run.task_title(cache)}, {cache.model}, {cache.rows} samples, {protocol}",
        question="What does each signal do on this task?",
        topic="tasks",
        columns=(Column(title="signal"), *(column for column, *_ in columns)),
        rows=tuple(rows),
        protocol=protocol,
        model=cache.model,
    )
