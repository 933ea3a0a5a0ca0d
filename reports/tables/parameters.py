"""Tables of grids: what each value of a parameter gives, and what the protocol chose."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.reports.run_data.finished_run import Entry, Group, Run, value_text
from exitbench.reports.run_data.names import slug, table_name
from exitbench.reports.tables.cells import dis_cell
from exitbench.reports.tables.ranking import layer_columns, places
from exitbench.reports.tables.table import Cell, Column, Row, Table, label
from exitbench.reports.tables.table_parts import finished, where
from exitbench.reports.tables.task_scores import readings, score_columns


def parameter_tables(run: Run) -> list[Table]:
    """Two tables per grid, score and DIS, per model and protocol; none in a suite without grids."""
    grids = [entry for entry in run.entries if entry.is_grid]
    return [
        table
        for entry in grids
        for group, protocol in run.each()
        for table in (grid_scores(run, entry, group, protocol), grid_dis(run, entry, group, protocol))
    ]


def grid_name(run: Run, entry: Entry) -> str:
    """The part of a file name that says which grid a table is of."""
    several = [one.signal for one in run.entries if one.is_grid].count(entry.signal) > 1
    return f"parameters-{slug(entry.text if several else entry.signal)}"


def grid_rows(run: Run, entry: Entry, cells: dict[str, list[Cell]]) -> list[Row]:
    """One row per value, then the row of what was chosen; values that the run has nothing of are left out."""
    rows = [
        Row((label(value_text(entry, one), f"{entry.signal}[{one}]"), *cells[one]), "other", entry.signal)
        for one in entry.values
        if any(cell.numbers for cell in cells[one])
    ]
    chosen = label(
        f"{run.label(entry.signal, entry.parameters)}, chosen", f"{entry.text}: as it stands in other tables"
    )
    return [*rows, Row((chosen, *cells[entry.parameters]), "signal", entry.signal)]


def grid_notes(entry: Entry, protocol: str, rows: list[Row]) -> tuple[str, ...]:
    """What the last row is, and which values are missing."""
    notes = [f"Last row: the value chosen by the protocol ({protocol}); cells say which when hovered over."]
    out = len(entry.values) - (len(rows) - 1)
    if out:
        notes.append(f"{out} of {len(entry.values)} values are left out: they exit too late for this depth.")
    return tuple(notes)


def grid_scores(run: Run, entry: Entry, group: Group, protocol: str) -> Table:
    """Score near the primary speed-up for each value of a grid."""
    speed = float(run.suite["primary_speed_up"])
    at = at_speed_up(speed)
    cells = {one: readings(run, group, protocol, entry.signal, one, at) for one in (*entry.values, entry.parameters)}
    rows = grid_rows(run, entry, cells)
    name = run.label(entry.signal, entry.parameters)
    table = Table(
        table_name(run, grid_name(run, entry), group=group, protocol=protocol),
        f"{name} by {' and '.join(entry.varied)}: score near {speed:g}× ({where(run, group, protocol)})",
        f"How much does {' and '.join(entry.varied)} of {name} matter?",
        "parameters", (Column("Value"), *score_columns(run, group)), tuple(rows),
        grid_notes(entry, protocol, rows), protocol, group.model,
    )  # fmt: skip
    return finished(run, table)


def grid_dis(run: Run, entry: Entry, group: Group, protocol: str) -> Table:
    """DIS at the suite's layers for each value of a grid."""
    cells = {
        one: [
            dis_cell(
                run.row(cache, protocol, entry.signal, one, "dis", NOWHERE, layer),
                run.row(cache, protocol, entry.signal, one, "tied_share", NOWHERE, layer),
            )
            for cache, layer in places(group)
        ]
        for one in (*entry.values, entry.parameters)
    }
    rows = grid_rows(run, entry, cells)
    name = run.label(entry.signal, entry.parameters)
    columns = layer_columns(run, group, "dis", "higher")
    table = Table(
        table_name(run, f"{grid_name(run, entry)}-dis", group=group, protocol=protocol),
        f"{name} by {' and '.join(entry.varied)}: DIS ({where(run, group, protocol)})",
        f"How much does {' and '.join(entry.varied)} of {name} change the ranking?",
        "parameters", (Column("Value"), *columns[1:]), tuple(rows),
        grid_notes(entry, protocol, rows), protocol, group.model,
    )  # fmt: skip
    return finished(run, table)
