"""The one table of several runs: a row per signal and run, the best first, with paired differences on the same rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.results.operating_point import FINAL
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE, is_claimed
from exitbench.benchmarks.statistics.power import claimable
from exitbench.reports.run_data.numbers import Number, number, p_text
from exitbench.reports.several_runs.common_ground import Content
from exitbench.reports.several_runs.joint_column import JointColumn, joint_column
from exitbench.reports.several_runs.joint_runs import Contender, JointRuns
from exitbench.reports.tables.cells import number_cell, score_at_speed
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label, missing
from exitbench.reports.tables.table_parts import BEST_NOTE, MARK_NOTES
from exitbench.reports.verdict.alert import first_few
from exitbench.reports.verdict.main_column import FAMILIAR

MOST_CACHES = 24
"""As many caches as the whole table has columns for; the note says how many there are."""


@dataclass(frozen=True, eq=False)
class JointContest:
    """Several runs near one speed-up: the column that all share, and who the others are counted from."""

    joint: JointRuns
    subject: Contender | None = None

    @cached_property
    def column(self) -> JointColumn:
        """The mean over the caches that all runs share; the score itself where that is one."""
        return joint_column(self.joint, self.joint.ground.shared)

    @cached_property
    def single(self) -> dict[Content, JointColumn]:
        """A column for each cache, also those that some runs only have."""
        return {content: joint_column(self.joint, (content,)) for content in self.joint.every_content[:MOST_CACHES]}

    @cached_property
    def reference(self) -> int | None:
        """Where in the column the contender stands that differences are counted from; None where it takes no part."""
        contenders = self.column.contenders
        if self.subject is not None:
            return contenders.index(self.subject) if self.subject in contenders else None
        familiar = [index for index, contender in enumerate(contenders) if contender.entry.signal == FAMILIAR]
        return next(iter([*familiar, *range(len(contenders))]), None)

    @property
    def title(self) -> str:
        """What the column is, inside a sentence."""
        shared = self.joint.ground.shared
        return f"average of {len(shared)} shared tasks" if len(shared) > 1 else self.joint.titles[shared[0]]

    @property
    def measure(self) -> str:
        """The measure of the column, as the glossary calls it."""
        measures = {self.joint.owner(content)[1].measure for content in self.joint.ground.shared}
        return measures.pop() if len(measures) == 1 else "mean_accuracy_f1"

    def score(self, index: int) -> Number:
        """A contender's value in the column; that of one cache names the row it was read from."""
        column = self.column
        if len(column.caches) == 1:
            return self.score_cell(column.contenders[index], column.caches[0]).numbers[0]
        value, reach = float(column.values[index]), NORMAL_QUANTILE * column.std_err(index)
        return number(value, value - reach, value + reach, source="answers")

    def difference(self, first: int, second: int) -> tuple[Number, Number]:
        """First less second in the column, with its interval, and the p-value with Holm's adjustment."""
        test, adjusted = self.column.difference(first, second), self.column.adjusted(first, second)
        shown = number(test.value, test.low, test.high, source="answers", column="difference")
        return shown, Number(adjusted, p_text(adjusted), source="answers", column="p_adjusted")

    def score_cell(self, contender: Contender, content: Content) -> Cell:
        """A contender's score on one cache at the speed-up it has, with the marks of all runs together."""
        joint = self.joint
        home = joint.home(contender, content)
        if home is None:
            return missing(f"not in {joint.run_names(contender)}")
        cell = score_at_speed(joint.row(contender, content), joint.row(contender, content, "speed_up"))
        run = str(joint.numbers[home])
        numbers = tuple(replace(shown, run=run) for shown in cell.numbers)
        best = tied = False
        if content in self.single and contender in self.single[content].contenders:
            marks, at = self.single[content].marks, self.single[content].contenders.index(contender)
            best, tied = bool(marks.best[at]), bool(marks.tied_with_best[at])
        return replace(cell, numbers=numbers, best=best, tied=tied)


def joint_table(contest: JointContest, most_caches: int = MOST_CACHES) -> Table:
    """A row per contender: its value over the shared caches, its difference, its score on each cache."""
    joint, column = contest.joint, contest.column
    shown = joint.every_content[:most_caches]
    single = len(joint.ground.shared) == 1
    if single:
        shown = [content for content in shown if content != joint.ground.shared[0]]
    places = {contender: index for index, contender in enumerate(column.contenders)}
    rows = [
        TableRow(
            (
                label(joint.signal_label(contender), contender.entry.text),
                label(joint.run_names(contender)),
                leading_cell(contest, contender, places.get(contender)),
                difference_cell(contest, places.get(contender)),
                *(contest.score_cell(contender, content) for content in shown),
            ),
            signal=contender.entry.signal,
        )
        for contender in joint.contenders
    ]
    rows.sort(key=lambda row: (row.cells[2].value is None, row.cells[2].status != "ok", -(row.cells[2].value or 0.0)))
    near = joint.ground.point.short
    heading = joint.titles[joint.ground.shared[0]] if single else f"Average of {len(joint.ground.shared)} shared"
    columns = [
        TableColumn("Signal"),
        TableColumn("Run"),
        TableColumn(heading, group=f"Score near {near}", measure=contest.measure, better="higher"),
        TableColumn(difference_heading(contest), measure="joint_difference", better="higher"),
        *(
            TableColumn(
                joint.titles[content],
                group=f"Score near {near}, single tasks" if not single else f"Score near {near}, other tasks",
                measure=joint.owner(content)[1].measure,
                better="higher",
            )
            for content in shown
        ),
    ]
    every = (*rows, *final_rows(contest, shown), *foot_rows_of(contest, len(shown)))
    return Table(
        name="joint",
        title=f"All runs near {near}: {contest.title}, {joint.ground.protocol}",
        question="Which signal of which run to take?",
        topic="main",
        columns=tuple(columns),
        rows=every,
        notes=joint_notes(contest, every, len(shown)),
        protocol=joint.ground.protocol,
    )


def leading_cell(contest: JointContest, contender: Contender, index: int | None) -> Cell:
    """The value over the shared caches, with its marks; why there is none where the contender takes no part."""
    shared = contest.joint.ground.shared
    if len(shared) == 1:
        return contest.score_cell(contender, shared[0])
    if index is None:
        return missing(why_apart(contest, contender))
    score, marks = contest.score(index), contest.column.marks
    return Cell(
        score.text,
        (score,),
        best=bool(marks.best[index]),
        tied=bool(marks.tied_with_best[index]),
        status="ok",
        notes=(f"mean of {len(shared)} tasks, {contest.column.rows} rows",),
    )


def why_apart(contest: JointContest, contender: Contender) -> str:
    """Why a contender takes no part in the shared column."""
    joint = contest.joint
    for content in joint.ground.shared:
        row = joint.row(contender, content)
        if row is None:
            return f"no score on {joint.titles[content]}"
        if row.status != "ok":
            return f"{apart_by(row, joint.row(contender, content, 'speed_up'))} on {joint.titles[content]}"
    flattered = joint.ground.protocol == "in-sample" and contender.entry.is_grid
    return "parameters chosen on the scored rows" if flattered else "its answers are not stored"


def apart_by(score: Row, speed: Row | None) -> str:
    """Why a score does not count, in a word: the speed-up where that is off, else its status."""
    if score.status == "degenerate":
        return "one exit layer for all"
    known = speed is not None and not math.isnan(speed.value)
    return f"{speed.value:.2f}×" if score.status == "unmatched" and speed is not None and known else score.status


def difference_heading(contest: JointContest) -> str:
    """What the column of differences is."""
    if contest.reference is None:
        return "Difference"
    name = contest.joint.label(contest.column.contenders[contest.reference])
    return f"{name} less it" if contest.subject is not None else f"Less {name}"


def difference_cell(contest: JointContest, index: int | None) -> Cell:
    """A contender less the reference, or the subject less it, with the adjusted p-value."""
    reference = contest.reference
    if index is None or reference is None:
        return Cell("·")
    if index == reference:
        return Cell("·", notes=("the one that the others are counted from",))
    ends = (reference, index) if contest.subject is not None else (index, reference)
    shown, adjusted = contest.difference(*ends)
    signed = shown.text if shown.text.startswith("-") or not shown.text.strip("0.") else f"+{shown.text}"
    if math.isnan(adjusted.value):
        return Cell(signed, (shown,), status="undefined", reason="the difference has no variance but is not zero")
    p = f"p {adjusted.text}" if adjusted.text.startswith("<") else f"p={adjusted.text}"
    won = is_claimed(adjusted.value) and shown.value > 0
    return Cell(f"{signed} ({p})", (shown, adjusted), best=won, status="ok")


def final_rows(contest: JointContest, shown: Sequence[Content]) -> list[TableRow]:
    """The full network of every cache, which all runs over that cache have alike."""
    joint = contest.joint

    def final(content: Content) -> Cell:
        first, cache = joint.owner(content)
        cell = number_cell(joint.runs[first].row(cache, joint.ground.protocol, "final", "", cache.measure, FINAL))
        run = str(joint.numbers[first])
        return replace(cell, numbers=tuple(replace(value, run=run) for value in cell.numbers))

    shared = [final(content) for content in joint.ground.shared]
    values = [cell.value for cell in shared if cell.value is not None]
    if len(shared) == 1:
        leading = shared[0]
    elif len(values) == len(shared):
        mean = number(float(np.mean(values)), source="answers")
        leading = Cell(mean.text, (mean,), status="ok")
    else:
        leading = missing("no score of the last layer")
    cells = (label("Final layer"), label(""), leading, Cell("·"), *map(final, shown))
    return [TableRow(cells, kind="bound", signal="final")] if leading.numbers else []


def foot_rows_of(contest: JointContest, others: int) -> list[TableRow]:
    """The smallest difference that the shared column could show, for one pair and for one of all pairs."""
    errors = [test.std_err for test in contest.column.tests.values() if test.std_err > ROUNDING]
    if not errors:
        return []
    middle, rows = float(np.median(errors)), []
    for which, tests in (("one pair", 1), ("all pairs", len(contest.column.tests))):
        smallest = number(claimable(middle, tests), source="answers", digits=1)
        cells = (label(f"Smallest difference, {which}"), label(""), Cell(smallest.text, (smallest,), status="ok"))
        rows.append(TableRow((*cells, *(Cell("·"),) * (1 + others)), kind="foot"))
    return rows


def joint_notes(contest: JointContest, rows: Sequence[TableRow], shown: int) -> tuple[str, ...]:
    """What the columns mean, what was paired, and what is not shared."""
    joint = contest.joint
    others = len(joint.every_content) - (1 if len(joint.ground.shared) == 1 else 0) - shown
    notes = [
        "Differences and marks: paired on the same rows of caches with the same content, from the stored answers; "
        "errors are those of the rows, with what a choice among parameters adds, as if independent, and a fit or deals "
        "of folds where it is much; Holm's adjustment over all pairs of the column. The networks are as they are.",
        *not_shared(joint),
    ]
    if others > 0:
        notes.append(f"{others} more {'cache has' if others == 1 else 'caches have'} no column here.")
    cells = [cell for row in rows for cell in row.cells]
    if any(cell.tied for cell in cells):
        notes.append(BEST_NOTE)
    notes += [note for status, note in MARK_NOTES.items() if any(cell.status == status for cell in cells)]
    return tuple(notes)


def not_shared(joint: JointRuns) -> list[str]:
    """What only some of the runs have, in a sentence each: caches, protocols, seeds."""
    sentences, protocol = [], joint.ground.protocol
    for run_number, name in enumerate(joint.names):
        apart = [content for content in joint.every_content if content not in joint.ground.shared]
        own = [joint.titles[content] for content in apart if joint.cache(run_number, content) is not None]
        if own:
            sentences.append(f"Not in all runs: {first_few(own)} ({name}).")
        left = [cache.name for cache in joint.runs[run_number].caches if protocol not in cache.protocols]
        if left:
            sentences.append(f"Not under {protocol} in {name}, so not here: {first_few(left)}.")
    if len({run.record["seed"] for run in joint.runs}) > 1:
        sentences.append("The runs have different seeds, so their folds differ.")
    return sentences


def first_rows(table: Table, most: int) -> Table:
    """The table with at most so many signals; a note says how many more there are."""
    signals = [row for row in table.rows if row.kind == "signal"]
    if len(signals) <= most:
        return table
    kept = {id(row) for row in signals[:most]}
    rows = tuple(row for row in table.rows if row.kind != "signal" or id(row) in kept)
    note = f"{len(signals) - most} more signals are in the whole table, below under Details."
    return replace(table, rows=rows, notes=(note, *table.notes))
