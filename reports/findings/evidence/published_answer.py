"""Do the paper's differences appear? Ours on the same tasks, and whether they could have been seen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from exitbench.benchmarks.statistics.power import claimable
from exitbench.reports.findings.choices import signed
from exitbench.reports.findings.duels import Duel, tally
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable
from exitbench.reports.findings.evidence.contested_runs import RunsTogether, cache_value, dot_of
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import (
    CacheValue,
    TasksEstimate,
    holm_adjusted,
    interval_end,
    mean_over_tasks,
)
from exitbench.reports.findings.power import published_difference
from exitbench.reports.findings.sentences import counted, span
from exitbench.reports.run_data.run_caches import CacheMetadata

PUBLISHED_SPEED_UP = 2.0
"""About what the paper's main table is for."""

PUBLISHED_COLUMNS = ("less", "task", "model", "the paper", "here", "verdict", "could be shown", "paper's in interval")


@dataclass(frozen=True)
class BesidePublished:
    """One difference of the paper beside ours."""

    other: str
    task: str
    cache: CacheMetadata
    published: float
    duel: Duel

    @property
    def ends(self) -> tuple[float, float]:
        """Our 95% interval."""
        dot = dot_of(self.duel)
        return dot.low, dot.high

    @property
    def smallest(self) -> float:
        """The smallest difference that the adjusted test would have shown four times in five."""
        return claimable(self.duel.std_err, self.duel.tests)

    @property
    def is_compatible(self) -> bool:
        """Whether the paper's figure lies in our interval."""
        low, high = self.ends
        return low <= self.published <= high

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        low, high = (interval_end(end, 1) for end in self.ends)
        here = f"{signed(self.duel.difference, 1)} [{low}, {high}]"
        shown = "–" if math.isnan(self.smallest) else f"{self.smallest:.1f}"
        inside = "yes" if self.is_compatible else "no"
        names = (self.other, self.task, self.cache.model)
        return (*names, signed(self.published, 1), here, self.duel.verdict, shown, inside)


def beside_published(evidence: RunsTogether) -> list[BesidePublished]:
    """Every difference that the paper has a figure for, on every cache once, at the paper's speed-up."""
    compared: dict[tuple[str, str], BesidePublished] = {}
    for contest in evidence.contests:
        if float(contest.run.suite["primary_speed_up"]) != PUBLISHED_SPEED_UP:
            continue
        for other in contest.others:
            for duels in contest.against(other):
                figure = published_difference(contest.run, duels.cache, contest.subject, other)
                if not math.isnan(figure + duels.score.difference):
                    both = BesidePublished(
                        other.title, contest.run.task_title(duels.cache), duels.cache, figure, duels.score
                    )
                    compared.setdefault((other.title, duels.cache.name), both)
    order = {title: number for number, title in enumerate(evidence.opponents)}
    return sorted(compared.values(), key=lambda both: order[both.other])


def published_answer(evidence: RunsTogether, differences: Sequence[str] = ()) -> AnsweredQuestion | None:
    """The published differences beside ours, on the same tasks; ``differences`` say what else is not the paper's."""
    every = beside_published(evidence)
    if not every:
        return None
    subject = evidence.subject
    by_other = {
        title: [both for both in every if both.other == title] for title in dict.fromkeys(b.other for b in every)
    }
    means = holm_adjusted(
        [mean_over_tasks([cache_value([both.duel], both.cache) for both in own]) for own in by_other.values()]
    )
    panels = [
        DotPanel(
            f"{subject} less {title}",
            tuple(
                DotRow(f"{both.task}, {both.cache.model}", (dot_of(both.duel), Dot(both.published, second=True)))
                for both in own
            ),
        )
        for title, own in by_other.items()
    ]
    chart = DotChart(
        "paper",
        f"Differences of the task score near {PUBLISHED_SPEED_UP:g}×: ours with 95% intervals, and the paper's",
        "points",
        tuple(panels),
        kinds=("here", "the paper"),
    )
    note = (
        "Could be shown: the smallest true difference that the adjusted test claims in four cases of five. The "
        "paper's figures have no interval."
    )
    return AnsweredQuestion(
        "Do the paper's differences appear?",
        published_short(subject, every),
        (*published_sentences(subject, by_other.items(), means), *differences),
        chart,
        (PlainTable(PUBLISHED_COLUMNS, tuple(both.cells() for both in every), note),),
    )


def published_short(subject: str, every: Sequence[BesidePublished]) -> str:
    """How many of the paper's differences are shown, contradicted, or too small for these rows."""
    positive = [both for both in every if both.published > 0]
    counts = tally([both.duel for both in positive])
    visible = [both for both in positive if both.smallest <= both.published]
    seen = sum(both.duel.verdict == "better" for both in visible)
    outside = sum(not both.is_compatible for both in positive)
    word = "No" if counts["better"] == 0 else "In part" if counts["better"] < len(positive) else "Yes"
    return (
        f"{word}: the paper has {subject} ahead in {len(positive)} of {counted(len(every), 'comparison')} that both "
        f"make; here it is shown to be better in {counts['better']} of these and worse in {counts['worse']}. "
        f"{len(visible)} of these differences are as large as these rows could have shown (seen: {seen}), and "
        f"{outside} lie outside our 95% interval."
    )


def published_sentences(
    subject: str, by_other: Iterable[tuple[str, list[BesidePublished]]], means: Sequence[TasksEstimate]
) -> Iterator[str]:
    """The paper's range and mean against each opponent, beside ours."""
    for (title, own), ours in zip(by_other, means, strict=True):
        figures = [both.published for both in own]
        same = sum(both.published * both.duel.difference > 0 for both in own)
        paper = mean_over_tasks([CacheValue(both.cache.task, both.cache.model, both.published) for both in own])
        yield (
            f"{subject} less {title}: the paper has {span(figures)} points, {signed(paper.value, 1)} in the mean over "
            f"these tasks; here the mean is {ours.text()}, and the sign agrees on {same} of "
            f"{counted(len(own), 'cache')}."
        )
