"""Tables of grids: what each value of a parameter gives, and what the protocol chose."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import NOWHERE, at_speed_up
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE
from exitbench.reports.run_data.names import slug, table_name
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.cells import dis_cell
from exitbench.reports.tables.ranking import layer_columns, task_layers
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import finished, where
from exitbench.reports.tables.task_scores import score_cells, score_columns


def parameter_tables(run: FinishedRun) -> list[Table]:
    """Two tables per grid, score and DIS, per model and protocol; none in a suite without grids."""
    grids = [entry for entry in run.entries if entry.is_grid]
    return [
        table
        for entry in grids
        for group, protocol in run.each()
        for table in (grid_scores(run, entry, group, protocol), grid_dis(run, entry, group, protocol))
    ]


def grid_name(run: FinishedRun, entry: RunEntry) -> str:
    """The part of a file name that says which grid a table is of."""
    several = [other.signal for other in run.entries if other.is_grid].count(entry.signal) > 1
    return f"parameters-{slug(entry.text if several else entry.signal)}"


def grid_rows(run: FinishedRun, entry: RunEntry, cells: dict[str, list[Cell]]) -> list[TableRow]:
    """One row per value, then the row of what was chosen; values that the run has nothing of are left out."""
    rows = [
        TableRow(
            cells=(label(entry.varied_text(value), f"{entry.signal}[{value}]"), *cells[value]),
            kind="other",
            signal=entry.signal,
        )
        for value in entry.values
        if any(cell.numbers for cell in cells[value])
    ]
    chosen = label(
        f"{run.label(entry.signal, entry.parameters)}, chosen", f"{entry.text}: as it stands in other tables"
    )
    return [*rows, TableRow(cells=(chosen, *cells[entry.parameters]), kind="signal", signal=entry.signal)]


def grid_notes(entry: RunEntry, protocol: str, rows: list[TableRow]) -> tuple[str, ...]:
    """What the row of the choice is, and which values are missing."""
    notes = [f"Chosen: the value that the protocol ({protocol}) chose; cells say which when hovered over."]
    out = len(entry.values) - (len(rows) - 1)
    if out:
        notes.append(f"{out} of {len(entry.values)} values are left out: they exit too late for this depth.")
    return tuple(notes)


def grid_scores(run: FinishedRun, entry: RunEntry, group: Group, protocol: str) -> Table:
    """Score near the primary speed-up for each value of a grid."""
    speed = float(run.suite["primary_speed_up"])
    at = at_speed_up(speed)
    cells = {
        value: score_cells(run, group, protocol, entry.signal, value, at) for value in (*entry.values, entry.parameters)
    }
    values = grid_rows(run, entry, cells)
    fixed = score_cells(run, group, protocol, "fixed", "", at)
    rows = [*values, TableRow((label(run.label("fixed")), *fixed), kind="bound", signal="fixed")]
    name = run.label(entry.signal, entry.parameters)
    table = Table(
        name=table_name(run, grid_name(run, entry), group=group, protocol=protocol),
        title=f"{name} by {' and '.join(entry.varied)}: score near {speed:g}× ({where(run, group, protocol)})",
        question=f"How much does {' and '.join(entry.varied)} of {name} matter?",
        topic="parameters",
        columns=(TableColumn("Value"), *score_columns(run, group)),
        rows=tuple(rows),
        notes=grid_notes(entry, protocol, values),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table)


def grid_dis(run: FinishedRun, entry: RunEntry, group: Group, protocol: str) -> Table:
    """DIS at the suite's layers for each value of a grid."""
    cells = {
        value: [
            dis_cell(
                run.row(cache, protocol, entry.signal, value, "dis", NOWHERE, layer),
                run.row(cache, protocol, entry.signal, value, "tied_share", NOWHERE, layer),
            )
            for cache, layer in task_layers(group)
        ]
        for value in (*entry.values, entry.parameters)
    }
    rows = grid_rows(run, entry, cells)
    name = run.label(entry.signal, entry.parameters)
    columns = layer_columns(run, group, "dis", "higher")
    table = Table(
        name=table_name(run, f"{grid_name(run, entry)}-dis", group=group, protocol=protocol),
        title=f"{name} by {' and '.join(entry.varied)}: Difficulty Inversion Score, DIS "
        f"({where(run, group, protocol)})",
        question=f"How much does {' and '.join(entry.varied)} of {name} change the ranking?",
        topic="parameters",
        columns=(TableColumn("Value"), *columns[1:]),
        rows=tuple(rows),
        notes=(DIS_NOTE, *grid_notes(entry, protocol, rows)),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table)
