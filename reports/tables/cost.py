"""Tables of what early exits cost, from the ``cost.json`` that ``exitbench cost`` left in the run's folder."""

from __future__ import annotations

from typing import Any

from exitbench.benchmarks.measures.cost_file import Cost, TimedSignal, read_cost
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number, fixed, number
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing

CostKey = tuple[Any, ...]


def cost_tables(run: FinishedRun) -> list[Table]:
    """Operations, parameters and times; none where the folder has no ``cost.json``."""
    cost = read_cost(run.path)
    if cost is None:
        return []
    tables = [operations_table(cost), parameters_table(cost)]
    return [*tables, timing_table(cost)] if cost.timing is not None else tables


def count_text(count: float) -> str:
    """A count with a metric prefix, as the paper prints it.

    >>> count_text(1813512192), count_text(3072), count_text(12)
    ('1813.5M', '3.1K', '12')
    """
    for size, prefix in ((1e6, "M"), (1e3, "K")):
        if count >= size:
            return f"{count / size:.1f}{prefix}"
    return f"{count:g}"


def count_cell(count: int | None, key: CostKey, column: str) -> Cell:
    """A number of operations or parameters."""
    if count is None:
        return missing("no derivation is known")
    shown_count = Number(float(count), count_text(count), source="cost", key=key, column=column)
    return Cell(shown_count.text, (shown_count,), status="ok", notes=(f"{count}",))


def printed_cell(text: str) -> Cell:
    """The paper's own figure, as printed."""
    return Cell(text or "–", status="published", notes=("as published",) if text else ())


def operations_table(cost: Cost) -> Table:
    """Operations of each module by both conventions, the published figures beside."""
    rows = []
    for number_, operation in enumerate(cost.operations):
        key = ("operations", number_)
        cells = (
            label(operation.module),
            label(str(operation.classes)),
            label(operation.per),
            count_cell(operation.published_convention, key, "published_convention"),
            count_cell(operation.with_attention, key, "with_attention"),
            printed_cell(operation.published),
        )
        rows.append(TableRow(cells=cells, kind="other"))
    columns = (
        TableColumn("Module"),
        TableColumn("Classes"),
        TableColumn("Per"),
        TableColumn(title="Published convention", measure="cost", better="lower"),
        TableColumn(title="With attention", measure="cost", better="lower"),
        TableColumn(title="As published", measure="published"),
    )
    return Table(
        name="cost-operations",
        title=f"Floating point operations ({cost.network})",
        question="What do the signals add to the computation?",
        topic="costs",
        columns=columns,
        rows=tuple(rows),
        notes=("As published: copied from the paper, BERT-base on 128 tokens.",),
    )


def parameters_table(cost: Cost) -> Table:
    """Parameters of each part of the network, the published figures beside."""
    rows = []
    for number_, part in enumerate(cost.parameters):
        cells = (
            label(part.part),
            label(str(part.classes)),
            count_cell(part.parameters, ("parameters", number_), "parameters"),
            printed_cell(part.published),
        )
        rows.append(TableRow(cells=cells, kind="other"))
    columns = (
        TableColumn("Part"),
        TableColumn("Classes"),
        TableColumn(title="Parameters", measure="cost", better="lower"),
        TableColumn(title="As published", measure="published"),
    )
    return Table(
        name="cost-parameters",
        title=f"Parameters ({cost.network})",
        question="How large do the exits make the network?",
        topic="costs",
        columns=columns,
        rows=tuple(rows),
    )


def timing_table(cost: Cost) -> Table:
    """Measured times with exits that nothing reaches: what asking the signal costs."""
    assert cost.timing is not None
    rows = []
    for number_, timed in enumerate(cost.timing.rows):
        key = ("timing", number_)
        rows.append(TableRow(cells=(label(timed.title), *timed_cells(timed, key)), kind="signal", signal=timed.signal))
    setting = ", ".join(f"{name} {value}" for name, value in cost.timing.setting.items())
    columns = (
        TableColumn("Signal"),
        TableColumn(title="Milliseconds per batch", measure="cost", better="lower"),
        TableColumn(title="Overhead, percent", measure="cost", better="lower"),
        TableColumn(title="Overhead as published", measure="published"),
    )
    return Table(
        name="cost-time",
        title=f"Time of asking the signal ({cost.network})",
        question="How long does a signal take to compute?",
        topic="costs",
        columns=columns,
        rows=tuple(rows),
        notes=(f"Setting: {setting}.",),
    )


def timed_cells(timed: TimedSignal, key: CostKey) -> list[Cell]:
    """Seconds and overhead of one contender, with intervals, and the published overhead."""
    time = number(
        1000 * timed.seconds,
        1000 * timed.seconds_low,
        1000 * timed.seconds_high,
        source="cost",
        key=key,
        column="seconds",
    )
    over = number(timed.overhead, timed.overhead_low, timed.overhead_high, source="cost", key=key, column="overhead")
    paper = "" if timed.published_overhead is None else fixed(timed.published_overhead, 1)
    return [Cell(time.text, (time,), status="ok"), Cell(over.text, (over,), status="ok"), printed_cell(paper)]
