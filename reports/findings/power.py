"""How large a difference the rows of a cache could have shown at all, beside the differences that the paper reports."""

from __future__ import annotations

import math
from collections.abc import Sequence

from exitbench.benchmarks.statistics.power import POWER, claimable
from exitbench.reports.findings.choices import signed
from exitbench.reports.findings.duels import Duel
from exitbench.reports.findings.paper_order import PUBLISHED_DEPTH
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.published import published_dis, published_score, score_file
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.table import Table, TableColumn, TableRow, label


def published_difference(run: FinishedRun, cache: CacheMetadata, subject: RunEntry, other: RunEntry) -> float:
    """The subject less another signal in the paper's main table; NaN where it has not both."""
    file, task = score_file(cache.model), run.task_title(cache)
    figures = [published_score(file, entry.title, task) for entry in (subject, other)]
    values = [figure.value for figure in figures if figure is not None]
    return values[0] - values[1] if len(values) == 2 else math.nan


def published_dis_difference(
    run: FinishedRun, cache: CacheMetadata, layer: int, subject: RunEntry, other: RunEntry
) -> float:
    """The subject less another signal in the paper's DIS table; NaN where it has not both, or at another depth."""
    if cache.layers != PUBLISHED_DEPTH:
        return math.nan
    figures = [published_dis(entry.title, run.task_title(cache), layer) for entry in (subject, other)]
    values = [figure.value for figure in figures if figure is not None]
    return values[0] - values[1] if len(values) == 2 else math.nan


def power_table(run: FinishedRun, subject: RunEntry, others: Sequence[tuple[RunEntry, Sequence[Duel]]]) -> Table:
    """One row per cache: rows, and for each opponent the difference found, the one it takes, and the paper's."""
    in_paper = any(
        not math.isnan(published_difference(run, cache, subject, other)) for cache in run.caches for other, _ in others
    )
    rows = []
    for number, cache in enumerate(run.caches):
        cells = [label(task_with_model(run, cache)), label(f"{cache.rows:,}")]
        for other, duels in others:
            duel = duels[number]
            cells += [label(signed(duel.difference, 1)), label(fixed(claimable(duel.std_err, duel.tests), 1))]
            if in_paper:
                cells.append(label(signed(published_difference(run, cache, subject, other), 1)))
        rows.append(TableRow(cells=tuple(cells), kind="other"))
    columns = [TableColumn("Task"), TableColumn(title="rows", measure="n")]
    for other, _ in others:
        heading = f"{subject.title} less {other.title}"
        titles = ("found", "could be shown", *(["in the paper"] if in_paper else []))
        columns += [TableColumn(title=title, group=heading, measure="difference") for title in titles]
    speed_up = f"{float(run.suite['primary_speed_up']):g}×"
    return Table(
        name="",
        title=f"What the rows could show, by score near {speed_up}",
        question="How large would a difference have to be?",
        topic="pairs",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            f"Could be shown: the smallest true difference, in points, that the adjusted test claims in {POWER:.0%} of "
            "cases, from the standard error of the difference found. – no difference"
            f"{' or no figure in the paper' if in_paper else ''}.",
        ),
    )
