"""Does the subject beat the others, and how does that depend on the number of classes?"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.reports.findings.duels import Duel, tally
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable
from exitbench.reports.findings.evidence.contested_runs import CacheDuels, RunsTogether, dot_of
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import TasksEstimate, holm_adjusted, mean_over_tasks
from exitbench.reports.findings.sentences import counted
from exitbench.reports.sentences import listed

CLASSES_COLUMNS = (
    *("against", "classes", "tasks", "caches"),
    *("DIS, mean difference", "about", "DIS: better, worse, of"),
    *("score, mean difference", "score: better, worse, of"),
)


@dataclass(frozen=True)
class ClassesRow:
    """The subject against one opponent on the caches with some number of classes."""

    other: str
    classes: int
    group: tuple[CacheDuels, ...]
    dis: TasksEstimate
    score: TasksEstimate

    @property
    def dis_duels(self) -> list[Duel]:
        return [duel for duels in self.group for duel in duels.dis]

    @property
    def score_duels(self) -> list[Duel]:
        return [duels.score for duels in self.group]

    @property
    def task_names(self) -> list[str]:
        return list(dict.fromkeys(duels.cache.task for duels in self.group))

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        return (
            self.other,
            str(self.classes),
            str(self.dis.tasks),
            str(self.dis.caches),
            self.dis.text(),
            self.dis.about,
            verdict_counts(self.dis_duels),
            self.score.text() if self.score.caches else "–",
            verdict_counts(self.score_duels),
        )


def verdict_counts(duels: Sequence[Duel]) -> str:
    """How often the paired tests say better and worse, of the differences that are known."""
    known = sum(not math.isnan(duel.difference) for duel in duels)
    counts = tally(duels)
    return f"{counts['better']}, {counts['worse']}, {known}" if known else "–"


def classes_rows(evidence: RunsTogether) -> list[ClassesRow]:
    """Every opponent on every number of classes; p-values are adjusted over all rows."""
    groups = [
        (title, number, tuple(duels for duels in by_cache if len(duels.cache.classes) == number))
        for title, by_cache in evidence.duels.items()
        for number in sorted({len(duels.cache.classes) for duels in by_cache})
    ]
    groups = [group for group in groups if any(not math.isnan(duels.dis_value.value) for duels in group[2])]
    ranks = holm_adjusted([mean_over_tasks([duels.dis_value for duels in group]) for _, _, group in groups])
    scores = holm_adjusted([mean_over_tasks([duels.score_value for duels in group]) for _, _, group in groups])
    return [ClassesRow(*named, dis, score) for named, dis, score in zip(groups, ranks, scores, strict=True)]


def classes_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """The subject against everyone, by the number of classes."""
    rows, subject = classes_rows(evidence), evidence.subject
    if not rows:
        return None
    panels = [
        DotPanel(
            f"{subject} less {title}",
            tuple(
                DotRow(
                    f"{row.classes} classes",
                    (
                        *(dot_of(duel) for duel in row.dis_duels if duel.pair),
                        Dot(row.dis.value, row.dis.low, row.dis.high, bool(row.dis.side), second=True),
                    ),
                )
                for row in rows
                if row.other == title
            ),
        )
        for title in evidence.opponents
    ]
    caption = (
        f"DIS of {subject} less that of the others by the number of classes: a dot for each cache and layer of the "
        "tables with its 95% interval, and the mean over tasks with its own"
    )
    chart = DotChart(
        "by-classes",
        caption,
        "difference of DIS in points; filled: shown",
        tuple(panels),
        kinds=("a cache and layer", "mean over tasks"),
    )
    note = (
        "About: what the interval of the mean is drawn over (tasks; rows and networks of one task; the rows of these "
        "networks only). Better, worse, of: paired tests on single caches (for DIS, layers of caches), adjusted."
    )
    return AnsweredQuestion(
        f"Does {subject} beat the others, and how does that depend on the number of classes?",
        short_answer(subject, rows),
        tuple(further_sentences(subject, rows)),
        chart,
        (PlainTable(CLASSES_COLUMNS, tuple(row.cells() for row in rows), note),),
    )


def short_answer(subject: str, rows: Sequence[ClassesRow]) -> str:
    """Yes or no, counted over opponents and numbers of classes, and the opponent that it is told from."""
    better, worse = (sum(row.dis.side == side for row in rows) for side in (1, -1))
    word = {
        (False, False): "Not shown",
        (True, False): "Yes",
        (False, True): "No",
        (True, True): "Partly",
    }[bool(better), bool(worse)]
    others = list(dict.fromkeys(row.other for row in rows))
    told_from = max(others, key=lambda title: sum(row.other == title and row.dis.side != 0 for row in rows))
    own = [row for row in rows if row.other == told_from]
    by_number = ", ".join(f"{row.dis.text()} with {row.classes}" for row in own)
    return (
        f"{word}: held against {counted(len(others), 'signal')} on {listed(numbers_of(rows))} classes "
        f"({counted(len(rows), 'mean')} of DIS), {subject} is shown to be better in {better} and worse in {worse}. "
        f"{subject} less {told_from}, in points of DIS by the number of classes: {by_number}."
    )


def numbers_of(rows: Sequence[ClassesRow]) -> list[str]:
    """The different numbers of classes."""
    return [str(number) for number in sorted({row.classes for row in rows})]


def further_sentences(subject: str, rows: Sequence[ClassesRow]) -> list[str]:
    """Score beside DIS, the first opponent, and what the numbers of classes are confounded with."""
    known = [row for row in rows if row.score.has_interval]
    better, worse = (sum(row.score.side == side for row in known) for side in (1, -1))
    sentences = []
    if known:
        lowest, highest = (pick(known, key=lambda row: row.score.value) for pick in (min, max))
        sentences.append(
            f"By task score, {subject} is shown to be better in {better} and worse in {worse} of "
            f"{counted(len(known), 'mean')}, from {lowest.score.text()} points (against {lowest.other}, "
            f"{lowest.classes} classes) to {highest.score.text()} (against {highest.other}, {highest.classes} classes)."
        )
    silent = sorted({row.classes for row in rows if not row.score.caches})
    if silent:
        sentences.append(
            f"With {listed([str(number) for number in silent])} classes there is no comparison of scores against some "
            "signals: a threshold chosen on held-out rows missed the speed-up by more than 2%, so the scores would be "
            "of unequal speed."
        )
    first = [row for row in rows if row.other == rows[0].other]
    sentences.append(
        f"{subject} less {rows[0].other} by DIS: "
        f"{', '.join(f'{row.dis.text()} with {row.classes} classes' for row in first)}."
    )
    alone = {row.classes: row.task_names[0] for row in rows if row.dis.tasks == 1}
    if alone:
        sentences.append(
            f"{len(alone)} of {len(numbers_of(rows))} numbers of classes stand for one task each "
            f"({', '.join(f'{number}: {name}' for number, name in sorted(alone.items()))}): what is said of the number "
            "of classes is said of these tasks, too."
        )
    return sentences
