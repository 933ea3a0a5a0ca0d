"""Tables of task scores: near a target speed-up, the largest speed-up within a loss, areas, and across backbones."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import FINAL, NOWHERE, OperatingPoint, at_speed_up, within_loss
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.reports.run_data import published
from exitbench.reports.run_data.finished_run import TASK_TITLES, FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.tables.cells import AVERAGE, number_cell, published_cell, ratio, score_at_speed, speed_at_loss
from exitbench.reports.tables.published_forms import form_notes
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import bound_table_rows, entry_rows, finished, foot_rows, where

READ_AT = {"final": FINAL, "oracle": NOWHERE}
"""Bounds that have one operating point only, whatever the target speed-up."""

MODELS_NOTE = (
    "Mean over models: every model counts once, whatever the number of its networks; its error is that of the rows, "
    "which models share, and it is about these networks only."
)


def score_columns(run: FinishedRun, group: Group) -> list[TableColumn]:
    """One column per task, and the average of several."""
    columns = [
        TableColumn(title=run.task_heading(cache), measure=cache.measure, better="higher") for cache in group.caches
    ]
    if len(group.caches) > 1:
        columns.append(TableColumn(title=AVERAGE, measure=group.average_measure, better="higher"))
    return columns


def score_cell(
    run: FinishedRun, cache: CacheMetadata, protocol: str, signal: str, parameters: str, point: OperatingPoint
) -> Cell:
    """Score and speed-up of one signal at one operating point of one cache; a bound at its own."""
    stored_point = READ_AT.get(signal, point)
    measure = cache.measure
    score = run.row(cache, protocol, signal, parameters, measure, stored_point)
    speed = run.row(cache, protocol, signal, parameters, "speed_up", stored_point)
    exact = run.row(cache, protocol, signal, parameters, measure, stored_point, None, "randomised")
    return score_at_speed(score, speed, exact, f"{point.number:g}×")


def score_cells(
    run: FinishedRun, group: Group, protocol: str, signal: str, parameters: str, point: OperatingPoint
) -> list[Cell]:
    """The cells of one row near one speed-up, the average of several tasks last."""
    cells = [score_cell(run, cache, protocol, signal, parameters, point) for cache in group.caches]
    if len(group.caches) > 1:
        stored_point = READ_AT.get(signal, point)
        score = run.average_row(group, protocol, signal, parameters, group.average_measure, stored_point)
        speed = run.average_row(group, protocol, signal, parameters, "speed_up", stored_point)
        cells.append(score_at_speed(score, speed))
    return cells


def published_score_rows(run: FinishedRun, group: Group) -> list[TableRow]:
    """The paper's main table for the signals of this run, and its network without exits."""
    file = published.score_file(group.model)
    titles = list(dict.fromkeys(entry.title for entry in run.entries if entry.signal not in BOUNDS))
    rows = []
    for method in (*titles, published.backbone_of(file)):
        figures = [published.published_score(file, method, run.task_title(cache)) for cache in group.caches]
        if any(figures):
            cells = [Cell("–", status="published") if figure is None else published_cell(figure) for figure in figures]
            if len(group.caches) > 1:
                cells.append(Cell("–", status="published", notes=("not in the published data",)))
            rows.append(TableRow(cells=(label(f"{method} ({published.WHAT[file]})"), *cells), kind="published"))
    return rows


def score_tables(run: FinishedRun) -> list[Table]:
    """Score near each speed-up, the primary one first."""
    primary = float(run.suite["primary_speed_up"])
    speeds = dict.fromkeys((primary, *map(float, run.suite["speed_ups"])))
    return [score_table(run, group, protocol, speed) for speed in speeds for group, protocol in run.each()]


def score_table(run: FinishedRun, group: Group, protocol: str, speed: float) -> Table:
    """Score near one speed-up; at the primary one with the published rows beside it, where those are for about 2x."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return score_cells(run, group, protocol, signal, parameters, at_speed_up(speed))

    rows = entry_rows(run, cells) + bound_table_rows(run, ("fixed", "random", "oracle", "final"), cells)
    notes = [f"Cells: score (speed-up). Protocol: {protocol}."]
    is_primary = speed == float(run.suite["primary_speed_up"])
    published_rows = published_score_rows(run, group) if is_primary and speed == 2 else []
    if published_rows:
        notes.append("Published rows are copied from the paper: another backbone, another training, another test set.")
        notes += form_notes(run.entries)
    name = "main" if is_primary else f"speed-up-{speed:g}".replace(".", "-")
    table = Table(
        name=table_name(run, name, group=group, protocol=protocol),
        title=f"Task score near {speed:g}× ({where(run, group, protocol)})",
        question=f"How much of the task score is left when about {speed:g} times fewer layers are computed?",
        topic="main",
        columns=(TableColumn("Signal"), *score_columns(run, group)),
        rows=(*rows, *published_rows, *foot_rows(run, cells)),
        notes=tuple(notes),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def loss_tables(run: FinishedRun) -> list[Table]:
    """The largest speed-up within each loss, per model and protocol."""
    return [loss_table(run, group, protocol) for group, protocol in run.each()]


def loss_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """The largest speed-up within each loss."""
    losses = [float(loss) for loss in run.suite["losses"]]
    several = len(group.caches) > 1

    def cells(signal: str, parameters: str) -> list[Cell]:
        row_cells = []
        for point in map(within_loss, losses):
            row_cells += [
                speed_at_loss(
                    run.row(cache, protocol, signal, parameters, "max_speed_up", point),
                    run.row(cache, protocol, signal, parameters, "realised_loss", point),
                )
                for cache in group.caches
            ]
            if several:
                row_cells.append(ratio(run.average_row(group, protocol, signal, parameters, "max_speed_up", point)))
        return row_cells

    columns = [TableColumn("Signal")]
    for loss in losses:
        heading = f"within {loss:g} point" + ("" if loss == 1 else "s")
        titles = [run.task_heading(cache) for cache in group.caches] + ([AVERAGE] if several else [])
        columns += [
            TableColumn(title=title, group=heading, measure="max_speed_up", better="higher") for title in titles
        ]
    table = Table(
        name=table_name(run, "loss", group=group, protocol=protocol),
        title=f"Largest speed-up within a loss ({where(run, group, protocol)})",
        question="How fast may the network get before its task score falls by more than a given loss?",
        topic="loss",
        columns=tuple(columns),
        rows=(*entry_rows(run, cells), *bound_table_rows(run, ("fixed",), cells), *foot_rows(run, cells)),
        notes=("Cells: speed-up (points that the scored rows lose).",),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def area_tables(run: FinishedRun) -> list[Table]:
    """The area under the whole trade-off curve, per model and protocol."""
    return [area_table(run, group, protocol) for group, protocol in run.each()]


def area_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """The area under the whole trade-off curve."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [number_cell(run.row(cache, protocol, signal, parameters, "area")) for cache in group.caches]

    columns = [TableColumn(title=run.task_heading(cache), measure="area", better="higher") for cache in group.caches]
    table = Table(
        name=table_name(run, "area", group=group, protocol=protocol),
        title=f"Area under the trade-off curve ({where(run, group, protocol)})",
        question=f"Which signal keeps most of the score over relative costs {area_span(run)}?",
        topic="main",
        columns=(TableColumn("Signal"), *columns),
        rows=(*entry_rows(run, cells), *bound_table_rows(run, ("fixed",), cells), *foot_rows(run, cells)),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def area_span(run: FinishedRun) -> str:
    """Between which relative costs the run took its areas; runs of earlier versions took what all signals reach."""
    costs = run.suite.get("area_range")
    return "that every signal reaches" if costs is None else f"{costs[0]:.4g} to {costs[1]:.4g}"


def backbone_tables(run: FinishedRun) -> list[Table]:
    """The tasks that several backbones share, side by side at the primary speed-up, per protocol."""
    models: dict[str, set[str]] = {}
    for cache in run.caches:
        models.setdefault(cache.task, set()).add(cache.model)
    chosen = [(group, cache) for group in run.groups for cache in group.caches if len(models[cache.task]) > 1]
    tables = []
    for protocol in run.protocols:
        own = [(group, cache) for group, cache in chosen if protocol in cache.protocols]
        if own:
            tables.append(backbone_table(run, own, protocol))
    return tables


def backbone_table(run: FinishedRun, chosen: list[tuple[Group, CacheMetadata]], protocol: str) -> Table:
    """Some caches of several backbones side by side, and the mean over the models of each task."""
    speed = float(run.suite["primary_speed_up"])
    first_of = {(cache.task, cache.split): cache for _, cache in reversed(chosen)}
    averaged = [
        cache
        for _, cache in chosen
        if cache is first_of[cache.task, cache.split]
        and len({other.model for _, other in chosen if (other.task, other.split) == (cache.task, cache.split)}) > 1
    ]

    def cells(signal: str, parameters: str) -> list[Cell]:
        single = [score_cell(run, cache, protocol, signal, parameters, at_speed_up(speed)) for _, cache in chosen]
        stored_point = READ_AT.get(signal, at_speed_up(speed))
        means = [
            score_at_speed(
                run.models_row(cache, protocol, signal, parameters, cache.measure, stored_point),
                run.models_row(cache, protocol, signal, parameters, "speed_up", stored_point),
            )
            for cache in averaged
        ]
        return [*single, *means]

    columns = [
        TableColumn(
            title=run.task_heading(cache),
            group=f"{run.group_title(group)} ({cache.layers} layers)",
            measure=cache.measure,
            better="higher",
        )
        for group, cache in chosen
    ]
    titles = [TASK_TITLES.get(cache.task, cache.task) for cache in averaged]
    columns += [
        TableColumn(title=title, group="mean over models", measure=cache.measure, better="higher")
        for title, cache in zip(titles, averaged, strict=True)
    ]
    rows = entry_rows(run, cells) + bound_table_rows(run, ("fixed", "random", "oracle", "final"), cells)
    table = Table(
        name=table_name(run, "backbones", protocol=protocol),
        title=f"Backbones side by side near {speed:g}× ({protocol})",
        question="Does the order of the signals hold for another backbone on the same tasks?",
        topic="backbones",
        columns=(TableColumn("Signal"), *columns),
        rows=(*rows, *foot_rows(run, cells)),
        notes=(f"Cells: score (speed-up). Protocol: {protocol}.", *([MODELS_NOTE] if averaged else [])),
        protocol=protocol,
    )
    return finished(run, table)
