"""Tables of how well a signal ranks the predictions of one layer: DIS, AURC beside it, and calibration."""

from __future__ import annotations

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.results.vocabulary import BOUNDS
from exitbench.reports.run_data import published
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE, GLOSSARY
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.tables.cells import AVERAGE, dis_cell, number_cell, published_cell
from exitbench.reports.tables.published_forms import form_notes
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from exitbench.reports.tables.table_parts import entry_rows, finished, foot_rows, where


def layer_columns(run: FinishedRun, group: Group, measure: str, better: str) -> tuple[TableColumn, ...]:
    """The label column, then the suite's layers of every task."""
    return (
        TableColumn("Signal"),
        *(
            TableColumn(
                title=f"layer {layer}",
                group=run.task_title(cache),
                measure=measure,
                better="higher" if better == "higher" else "lower",
            )
            for cache, layer in task_layers(group)
        ),
    )


def average_columns(group: Group) -> tuple[TableColumn, ...]:
    """The average DIS at each layer, of several caches of one depth."""
    return tuple(
        TableColumn(title=f"layer {layer}", group=AVERAGE, measure="dis", better="higher")
        for layer in averaged_layers(group)
    )


def averaged_layers(group: Group) -> tuple[int, ...]:
    """The layers at which DIS is averaged over the caches of a group: those of all their tables."""
    layers = {cache.table_layers for cache in group.caches}
    return group.caches[0].table_layers if len(group.caches) > 1 and len(layers) == 1 else ()


def task_layers(group: Group) -> list[tuple[CacheMetadata, int]]:
    """The tasks of a group with the suite's layers of each."""
    return [(cache, layer) for cache in group.caches for layer in cache.table_layers]


def dis_tables(run: FinishedRun) -> list[Table]:
    """DIS by layer, per model and protocol."""
    return [dis_table(run, group, protocol) for group, protocol in run.each()]


def dis_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """DIS at the suite's layers, with the published figures for networks as deep as the published one."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            dis_cell(
                run.row(cache, protocol, signal, parameters, "dis", NOWHERE, layer),
                run.row(cache, protocol, signal, parameters, "tied_share", NOWHERE, layer),
            )
            for cache, layer in task_layers(group)
        ] + [
            dis_cell(run.average_row(group, protocol, signal, parameters, "dis", NOWHERE, layer), None)
            for layer in averaged_layers(group)
        ]

    published_rows = published_dis_rows(run, group)
    notes = [DIS_NOTE, f"Protocol: {protocol}. Where more than 5% of pairs are tied, their share stands behind."]
    if published_rows:
        notes.append("Published rows are copied from the paper: another backbone and another training.")
        notes += form_notes(run.entries)
    table = Table(
        name=table_name(run, "dis", group=group, protocol=protocol),
        title=f"Difficulty Inversion Score (DIS) by layer ({where(run, group, protocol)})",
        question="How often is the signal more certain of a right prediction than of a wrong one?",
        topic="dis",
        columns=(*layer_columns(run, group, "dis", "higher"), *average_columns(group)),
        rows=(*entry_rows(run, cells), *published_rows, *foot_rows(run, cells)),
        notes=tuple(notes),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def published_dis_rows(run: FinishedRun, group: Group) -> list[TableRow]:
    """The paper's DIS of this run's signals, at the same layers of a network of the same depth."""
    rows = []
    for title in dict.fromkeys(entry.title for entry in run.entries if entry.signal not in BOUNDS):
        figures = [
            published.published_dis(title, run.task_title(cache), layer) if cache.layers == 12 else None
            for cache, layer in task_layers(group)
        ]
        if any(figures):
            cells = [Cell("–", status="published") if figure is None else published_cell(figure) for figure in figures]
            cells += [Cell("–", status="published", notes=("not in the published data",))] * len(averaged_layers(group))
            rows.append(TableRow(cells=(label(f"{title} ({published.WHAT[published.DIS]})"), *cells), kind="published"))
    return rows


def aurc_tables(run: FinishedRun) -> list[Table]:
    """Excess AURC by layer, per model and protocol."""
    return [aurc_table(run, group, protocol) for group, protocol in run.each()]


def aurc_table(run: FinishedRun, group: Group, protocol: str) -> Table:
    """Excess AURC at the suite's layers."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, "excess_aurc", NOWHERE, layer))
            for cache, layer in task_layers(group)
        ]

    table = Table(
        name=table_name(run, "excess-aurc", group=group, protocol=protocol),
        title=f"Excess AURC by layer ({where(run, group, protocol)})",
        question="How many more errors are kept than by the best possible ranking, over all coverages?",
        topic="dis",
        columns=layer_columns(run, group, "excess_aurc", "lower"),
        rows=(*entry_rows(run, cells), *foot_rows(run, cells)),
        notes=(f"Protocol: {protocol}. Lower is better.",),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)


def calibration_tables(run: FinishedRun) -> list[Table]:
    """ECE and Brier score by layer of what states a probability of being right, per model and protocol."""
    return [
        calibration_table(run, group, protocol, measure)
        for measure in ("ece", "brier")
        for group, protocol in run.each()
    ]


def calibration_table(run: FinishedRun, group: Group, protocol: str, measure: str) -> Table:
    """One of the two calibration errors at the suite's layers; other scores are no probabilities and have no row."""

    def cells(signal: str, parameters: str) -> list[Cell]:
        return [
            number_cell(run.row(cache, protocol, signal, parameters, measure, NOWHERE, layer))
            for cache, layer in task_layers(group)
        ]

    rows = [row for row in entry_rows(run, cells) if any(cell.numbers for cell in row.cells)]
    others = len(run.entries) - len(rows)
    notes = [GLOSSARY[measure].definition, f"Protocol: {protocol}. Lower is better."]
    if others:
        notes.append(
            f"{others} of {len(run.entries)} signals are not shown: an entropy, an energy or a count is no probability "
            "of being right. One threshold for all layers is fair only as far as a score means the same at each."
        )
    table = Table(
        name=table_name(run, f"calibration-{measure}", group=group, protocol=protocol),
        title=f"Calibration by layer: {GLOSSARY[measure].title} ({where(run, group, protocol)})",
        question="Is a layer as often right as its score says?",
        topic="dis",
        columns=layer_columns(run, group, measure, "lower"),
        rows=(*rows, *foot_rows(run, cells)),
        notes=tuple(notes),
        protocol=protocol,
        model=group.model,
    )
    return finished(run, table, group)
