"""Tables of what several tasks and networks say: ranks, normalised scores, practical sizes, sources of variance."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import ACROSS_KEY
from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.run_data.finished_run import AcrossRow, FinishedRun
from exitbench.reports.run_data.names import table_name
from exitbench.reports.run_data.numbers import Number, number, p_text
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import cache_notes, where

Name = tuple[str, str]
PARTS = ("rows", "networks", "tasks")


def across_tables(run: FinishedRun) -> list[Table]:
    """Per model and protocol every table that the run has the tasks and networks for."""
    tables: list[Table] = []
    for group, protocol in run.each():
        rows = run.across_of(group, protocol)
        made = [
            rank_table(run, group, protocol, rows),
            normalised_table(run, group, protocol, rows),
            improvement_table(run, group, protocol, rows),
            practical_table(run, group, protocol, rows),
            variance_table(run, group, protocol, rows),
        ]
        notes = cache_notes(run, group)
        tables += [replace(table, notes=(*table.notes, *notes)) for table in made if table is not None]
    return tables


def shown(row: AcrossRow, *, digits: int | None = 2) -> Number:
    """The number of a row of ``across.parquet``."""
    key = tuple(row[name] for name in ACROSS_KEY)
    return number(row["value"], row["low"], row["high"], source="across", key=key, digits=digits)


def across_cell(row: AcrossRow | None, *, digits: int | None = 2, best: bool = False) -> Cell:
    """A number with its interval; empty where there is none."""
    if row is None or math.isnan(row["value"]):
        return missing("not every task has a value that counts" if row is None else "one network for each task")
    value = shown(row, digits=digits)
    return Cell(value.text, (value,), best=best, status="ok")


def rows_by_entry(rows: Sequence[AcrossRow], statistic: str, measure: str = "") -> dict[Name, AcrossRow]:
    """The rows of a statistic by the entry they are about."""
    return {
        (row["signal_a"], row["parameters_a"]): row
        for row in rows
        if row["statistic"] == statistic and measure in ("", row["measure"])
    }


def entry_names(run: FinishedRun, *known: dict[Name, AcrossRow]) -> list[Name]:
    """The entries that some statistic is known of, in the suite's order."""
    names = [(entry.signal, entry.parameters) for entry in run.entries]
    return [name for name in names if any(name in rows for rows in known)]


def made_of(rows: Sequence[AcrossRow]) -> str:
    """How many tasks and networks a statistic rests on."""
    tasks, networks = rows[0]["tasks"], rows[0]["networks"]
    return f"{tasks} tasks with {networks} network{'' if networks == 1 else 's'} each" if tasks > 1 else "one task"


def rank_table(run: FinishedRun, group: Group, protocol: str, rows: Sequence[AcrossRow]) -> Table | None:
    """Average ranks by score and by DIS."""
    measures = list(dict.fromkeys(row["measure"] for row in rows if row["statistic"] == "average_rank"))
    if not measures:
        return None
    by_measure = {measure: rows_by_entry(rows, "average_rank", measure) for measure in measures}
    speed = f"{float(run.suite['primary_speed_up']):g}×"
    titles = {measure: "by DIS" if measure == "dis" else f"by score near {speed}" for measure in measures}
    lowest = {measure: min(row["value"] for row in ranks.values()) for measure, ranks in by_measure.items()}
    lines = [
        TableRow(
            (
                label(run.label(*name)),
                *(
                    across_cell(ranks.get(name), best=name in ranks and ranks[name]["value"] == lowest[measure])
                    for measure, ranks in by_measure.items()
                ),
            ),
            signal=name[0],
        )
        for name in entry_names(run, *by_measure.values())
    ]
    return Table(
        name=table_name(run, "ranks", group=group, protocol=protocol),
        title=f"Average ranks over tasks ({where(run, group, protocol)})",
        question="Which signal comes first on most tasks?",
        topic="across",
        columns=(
            TableColumn("Signal"),
            *(TableColumn(title=titles[measure], measure="average_rank", better="lower") for measure in measures),
        ),
        rows=tuple(lines),
        notes=(
            *(rank_note(rows, measure, titles[measure]) for measure in measures),
            *(
                note
                for measure in measures
                for note in absent_notes(run, by_measure[measure], f"Not ranked {titles[measure]}")
            ),
        ),
        protocol=protocol,
        model=group.model,
    )


def absent_notes(run: FinishedRun, known: Collection[Name], what: str) -> list[str]:
    """Which entries have no place in a statistic, so that its first is not taken for the best of all."""
    names = [(entry.signal, entry.parameters) for entry in run.entries]
    absent = [run.label(*name) for name in names if name not in known]
    why = "a task without a value that counts, or parameters chosen on the scored samples"
    return [f"{what} ({why}): {', '.join(absent)}."] if absent else []


def rank_note(rows: Sequence[AcrossRow], measure: str, title: str) -> str:
    """What the ranks by one measure claim."""
    values = {
        row["statistic"]: row["value"]
        for row in rows
        if row["measure"] == measure and row["statistic"] in ("critical_difference", "friedman_p")
    }
    p_value = values["friedman_p"]
    claim = (
        f"signals whose ranks are more than {values['critical_difference']:.2f} apart differ (Nemenyi's critical "
        "difference for all pairs at 5%; intervals are half of it on either side)"
        if is_claimed(p_value)
        else "no two signals are shown to differ"
    )
    return f"Ranks {title}: 1 is best, means over {made_of(rows)}; Friedman's test p = {p_text(p_value)}: {claim}."


def normalised_table(run: FinishedRun, group: Group, protocol: str, rows: Sequence[AcrossRow]) -> Table | None:
    """The interquartile mean of normalised scores."""
    means = rows_by_entry(rows, "interquartile_mean")
    if not means:
        return None
    highest = max(row["value"] for row in means.values())
    lines = [
        TableRow(
            (label(run.label(*name)), across_cell(means[name], digits=3, best=means[name]["value"] == highest)),
            signal=name[0],
        )
        for name in entry_names(run, means)
    ]
    return Table(
        name=table_name(run, "normalised", group=group, protocol=protocol),
        title=f"Normalised score over tasks and networks ({where(run, group, protocol)})",
        question="How much of the way from random exits to the oracle does a signal go?",
        topic="across",
        columns=(
            TableColumn("Signal"),
            TableColumn("interquartile mean", measure="interquartile_mean", better="higher"),
        ),
        rows=tuple(lines),
        notes=(
            f"0 is exiting at random at the same speed-up, 1 the oracle; the mean of the middle half of all runs, "
            f"{made_of(rows)}. Intervals: networks drawn anew within each task; they hold for networks trained alike "
            "on these tasks.",
            *below_random_notes(run, group, protocol, means.values()),
            *absent_notes(run, means, "Not part of this"),
        ),
        protocol=protocol,
        model=group.model,
    )


def below_random_notes(run: FinishedRun, group: Group, protocol: str, means: Iterable[AcrossRow]) -> list[str]:
    """What a normalised score below 0 says, and on how many networks a fixed layer has one, too."""
    if min(row["value"] for row in means) >= 0:
        return []
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    bounds = [
        (
            run.row(cache, protocol, "fixed", "", cache.measure, at),
            run.row(cache, protocol, "random", "", cache.measure, at),
        )
        for cache in group.caches
    ]
    below = sum(fixed.value < random.value for fixed, random in bounds if fixed is not None and random is not None)
    meaning = f"A value below 0 is a lower score than random exits have near {at.number:g}×"
    if not below:
        return [f"{meaning}."]
    return [
        f"{meaning}. On {below} of {len(bounds)} networks a fixed layer has one, too: where scores grow faster towards "
        "the last layer, exits that are spread over first and last layers, as random ones are, lose less than exits "
        "around one layer, where one threshold for all layers may put them."
    ]


def matrix_rows(run: FinishedRun, names: Sequence[Name], cells: dict[tuple[Name, Name], Cell]) -> tuple[TableRow, ...]:
    """One row and one column for every entry."""
    return tuple(
        TableRow(
            (label(run.label(*first)), *(cells.get((first, second), Cell("·")) for second in names)), signal=first[0]
        )
        for first in names
    )


def both_names(row: AcrossRow) -> tuple[Name, Name]:
    """The two entries that a row is about."""
    return (row["signal_a"], row["parameters_a"]), (row["signal_b"], row["parameters_b"])


def improvement_table(run: FinishedRun, group: Group, protocol: str, rows: Sequence[AcrossRow]) -> Table | None:
    """The chance that one signal beats another on a network and task like these."""
    chances = {both_names(row): row for row in rows if row["statistic"] == "improvement"}
    if not chances:
        return None
    names = entry_names(run, {first: row for (first, _), row in chances.items()})
    cells = {pair: across_cell(row, best=row["low"] > 0.5) for pair, row in chances.items()}
    return Table(
        name=table_name(run, "improvement", group=group, protocol=protocol),
        title=f"Probability of improvement ({where(run, group, protocol)})",
        question="How often does one signal beat another on the same network?",
        topic="across",
        columns=(
            TableColumn("Signal"),
            *(TableColumn(run.label(*name), group="beats", measure="improvement", better="higher") for name in names),
        ),
        rows=matrix_rows(run, names, cells),
        notes=(
            f"The share of networks on which the row's score is higher than the column's, ties one half, every task "
            f"counting alike; {made_of(rows)}. Bold: the interval lies above one half. It says how often, not by how "
            "much.",
            *absent_notes(run, names, "Not part of this"),
        ),
        protocol=protocol,
        model=group.model,
    )


def practical_table(run: FinishedRun, group: Group, protocol: str, rows: Sequence[AcrossRow]) -> Table | None:
    """Better, practically the same, worse: row against column."""
    chances: dict[tuple[Name, Name], dict[str, AcrossRow]] = {}
    for row in rows:
        if row["statistic"] in ("better", "same", "worse"):
            chances.setdefault(both_names(row), {})[row["statistic"]] = row
    if not chances:
        return None
    margin = next(iter(chances.values()))["same"]["level"]
    compared = {name: row["same"] for pair, row in chances.items() for name in pair}
    names = entry_names(run, compared)
    cells: dict[tuple[Name, Name], Cell] = {}
    for (first, second), of_pair in chances.items():
        cells[first, second] = practical_cell(of_pair["better"], of_pair["same"], of_pair["worse"])
        cells[second, first] = practical_cell(of_pair["worse"], of_pair["same"], of_pair["better"])
    return Table(
        name=table_name(run, "practical", group=group, protocol=protocol),
        title=f"Better, practically the same, worse by {margin:g} points ({where(run, group, protocol)})",
        question="Is a difference large enough to matter?",
        topic="across",
        columns=(
            TableColumn("Signal"),
            *(TableColumn(run.label(*name), group="against", measure="better", better="higher") for name in names),
        ),
        rows=matrix_rows(run, names, cells),
        notes=(
            f"Posterior probabilities that the row's average score near {float(run.suite['primary_speed_up']):g}× is "
            f"more than {margin:g} points above the column's / within {margin:g} points / more than {margin:g} below: "
            "a flat prior, and Student's t or the normal law of the average's own test (the Bayesian correlated "
            f"t-test); {made_of(rows)}. They are about these tasks, and below five networks each about these networks.",
            "Bold: the row is better with at least 95%.",
            *absent_notes(run, compared, "Not part of this"),
        ),
        protocol=protocol,
        model=group.model,
    )


def practical_cell(better: AcrossRow, same: AcrossRow, worse: AcrossRow) -> Cell:
    """Three probabilities that add up to one."""
    numbers = tuple(shown(row) for row in (better, same, worse))
    return Cell(" / ".join(value.text for value in numbers), numbers, best=better["value"] >= 0.95, status="ok")


def variance_table(run: FinishedRun, group: Group, protocol: str, rows: Sequence[AcrossRow]) -> Table | None:
    """How much of a score's variance comes from rows, networks and tasks."""
    parts = {part: rows_by_entry(rows, f"variance_{part}") for part in PARTS}
    names = entry_names(run, parts["rows"])
    if not names:
        return None
    lines = []
    for name in names:
        total = sum(rows_of[name]["value"] for rows_of in parts.values() if not math.isnan(rows_of[name]["value"]))
        cells = [variance_cell(parts[part][name], total) for part in PARTS]
        lines.append(TableRow((label(run.label(*name)), *cells), signal=name[0]))
    return Table(
        name=table_name(run, "variance", group=group, protocol=protocol),
        title=f"Where the variance of a score comes from ({where(run, group, protocol)})",
        question="Would more rows, more networks or more tasks say more?",
        topic="across",
        columns=(TableColumn("Signal"), *(TableColumn(part, measure="variance") for part in PARTS)),
        rows=tuple(lines),
        notes=(
            f"The variance of one network's score near {float(run.suite['primary_speed_up']):g}× on one task, in "
            f"squared points, with its share: from the rows drawn, from the training of the network (with what both "
            f"have together), and between tasks; {made_of(rows)}, by the method of moments, point estimates. With one "
            "network for each task what networks add is not known, and stands under tasks.",
        ),
        protocol=protocol,
        model=group.model,
    )


def variance_cell(row: AcrossRow, total: float) -> Cell:
    """A part of the variance with its share."""
    if math.isnan(row["value"]):
        return missing("one network for each task")
    value = shown(row)
    share = f" ({100 * row['value'] / total:.0f}%)" if total > 0 else ""
    return Cell(f"{value.text}{share}", (value,), status="ok")
