"""Tables of the two error rates of "exit" as a test: exiting on a wrong answer, going on from a right one."""

from __future__ import annotations

import math

from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.benchmarks.results.vocabulary import EQUAL_SHARE
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DECISIONS, EQUAL_SHARES, RATES
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.tables.cells import number_cell
from exitbench.reports.tables.table import Cell, Table, TableColumn
from exitbench.reports.tables.table_parts import entry_rows, finished, foot_rows, where


def rate_tables(run: FinishedRun) -> list[Table]:
    """Both rates at equal exit shares, over all decisions, then over those reached, per model and protocol."""
    return [
        *(equal_share_table(run, group, protocol) for group, protocol in run.each()),
        *(rate_table(run, group, protocol, kind) for kind in DECISIONS for group, protocol in run.each()),
    ]


def rate_columns(run: FinishedRun, group: Group, measures: dict[str, str]) -> tuple[TableColumn, ...]:
    """The label column, then the named measures of every task; a share of exits is neither good nor bad."""
    return (
        TableColumn("Signal"),
        *(
            TableColumn(
                title=title, group=run.task_title(cache), measure=measure, better="lower" if measure in RATES else ""
            )
            for cache in group.caches
            for measure, title in measures.items()
        ),
    )


def equal_share_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """Premature and delayed rates per task when every signal exits the same share at every layer."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, measure, NOWHERE, None, EQUAL_SHARE))
            for cache in group.caches
            for measure in RATES
        ]

    notes = [f"{EQUAL_SHARES[0].upper()}{EQUAL_SHARES[1:]}. Protocol: {protocol}. Lower is better for both."]
    table = Table(
        name=table_name(run, "rates-equal-share", group=group, protocol=protocol),
        title=f"Premature and delayed exiting rates at equal exit shares ({where(run, group, protocol)})",
        question="When all exit equally often, who exits on wrong answers and continues on right ones?",
        topic="rates",
        columns=rate_columns(run, group, RATES),
        rows=(*entry_rows(run, cells), *foot_rows(run, cells)),
        notes=(*notes, *unequal_shares(run, group, protocol)),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def rate_table(run: FinishedRun, group: Group, protocol: str, decisions: str) -> Table:
    """Premature and delayed rates per task at the suite's speed-up for rates; over all decisions with their exits."""
    speed = float(run.suite["rates_speed_up"])
    at = at_speed_up(speed)
    measures = {**RATES, "exit_share": "exits"} if decisions == "all" else RATES

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, measure, at, None, decisions))
            for cache in group.caches
            for measure in measures
        ]

    notes = [f"In percent of {DECISIONS[decisions]}. Protocol: {protocol}. Lower is better for both rates."]
    if decisions == "all":
        notes += unequal_shares(run, group, protocol)
    table = Table(
        name=table_name(run, f"rates-{decisions}", group=group, protocol=protocol),
        title=f"Premature and delayed exiting rates near {speed:g}×, {decisions} decisions "
        f"({where(run, group, protocol)})",
        question="Does the signal exit on wrong answers, or continue on right ones?",
        topic="rates",
        columns=rate_columns(run, group, measures),
        rows=(*entry_rows(run, cells), *foot_rows(run, cells)),
        notes=tuple(notes),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def unequal_shares(run: FinishedRun, group: Group, protocol: str) -> list[str]:
    """Why rates at one speed-up are not compared alone: the task whose signals' shares of exits lie furthest apart."""
    speed = float(run.suite["rates_speed_up"])
    spans = []
    for cache in group.caches:
        rows = [
            run.row(cache, protocol, entry.signal, entry.parameters, "exit_share", at_speed_up(speed), None, "all")
            for entry in run.entries
        ]
        shares = [row.value for row in rows if row is not None and row.status == "ok" and not math.isnan(row.value)]
        if len(shares) > 1:
            spans.append((max(shares) - min(shares), min(shares), max(shares), run.task_title(cache)))
    if not spans:
        return []
    _, low, high, task = max(spans)
    return [
        f"Near one speed-up signals exit unequal shares of all decisions ({task} at {speed:g}×: {low:.0f}% to "
        f"{high:.0f}%), so a lower premature rate may be no more than fewer exits: at equal exit shares it is not."
    ]
