"""Tables of the two error rates of "exit" as a test: leaving on a wrong answer, staying on a right one."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.reports.run_data.finished_run import Group, Run
from exitbench.reports.run_data.glossary import DECISIONS, RATES
from exitbench.reports.run_data.names import table_name
from exitbench.reports.tables.cells import plain
from exitbench.reports.tables.table import Cell, Column, Table
from exitbench.reports.tables.table_parts import entry_rows, finished, where


def rate_tables(run: Run) -> list[Table]:
    """Both rates over all decisions, then over those reached, per model and protocol."""
    return [rate_table(run, group, protocol, kind) for kind in DECISIONS for group, protocol in run.each()]


def rate_table(run: Run, group: Group, protocol: str, decisions: str) -> Table:
    """Premature and delayed rates per task at the suite's speed-up for rates."""
    speed = float(run.suite["rates_speed_up"])
    at = at_speed_up(speed)

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            plain(run.row(cache, protocol, signal, parameters, measure, at, None, decisions))
            for cache in group.caches for measure in RATES
        ]  # fmt: skip

    columns = [Column(title, run.task_title(cache), measure, "lower") for cache in group.caches
               for measure, title in RATES.items()]  # fmt: skip
    table = Table(
        table_name(run, f"rates-{decisions}", group=group, protocol=protocol),
        f"Premature and delayed exiting rates near {speed:g}×, {decisions} decisions ({where(run, group, protocol)})",
        "Does the signal leave on wrong answers, or stay on right ones?",
        "rates", (Column("Signal"), *columns), tuple(entry_rows(run, cells)),
        (f"In percent of {DECISIONS[decisions]}. Protocol: {protocol}. Lower is better for both.",), protocol,
        group.model,
    )  # fmt: skip
    return finished(run, table, group)
