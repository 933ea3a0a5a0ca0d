"""Tables of the two error rates of "exit" as a test: leaving on a wrong answer, staying on a right one."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.reports.run_data.finished_run import FinishedRun, Group
from exitbench.reports.run_data.glossary import DECISIONS, RATES
from exitbench.reports.run_data.names import table_name
from exitbench.reports.tables.cells import number_cell
from exitbench.reports.tables.table import Cell, Table, TableColumn
from exitbench.reports.tables.table_parts import entry_rows, finished, where


def rate_tables(run: FinishedRun) -> list[Table]:
    """Both rates over all decisions, then over those reached, per model and protocol."""
    return [rate_table(run, group, protocol, kind) for kind in DECISIONS for group, protocol in run.each()]


def rate_table(run: FinishedRun, group: Group, protocol: str, decisions: str) -> Table:
    """Premature and delayed rates per task at the suite's speed-up for rates."""
    speed = float(run.suite["rates_speed_up"])
    at = at_speed_up(speed)

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, measure, at, None, decisions))
            for cache in group.caches
            for measure in RATES
        ]

    columns = [
        TableColumn(title=title, group=run.task_title(cache), measure=measure, better="lower")
        for cache in group.caches
        for measure, title in RATES.items()
    ]
    table = Table(
        name=table_name(run, f"rates-{decisions}", group=group, protocol=protocol),
        title=f"Premature and delayed exiting rates near {speed:g}×, {decisions} decisions "
        f"({where(run, group, protocol)})",
        question="Does the signal exit on wrong answers, or continue on right ones?",
        topic="rates",
        columns=(TableColumn("Signal"), *columns),
        rows=tuple(entry_rows(run, cells)),
        notes=(f"In percent of {DECISIONS[decisions]}. Protocol: {protocol}. Lower is better for both.",),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)
