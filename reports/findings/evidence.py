"""The evidence page: what several finished runs say together about one signal, a question, its answer and a picture.

Every sentence has its number, and every number comes from the runs' files. Which signal is asked about, and against
which others, the suites say (``[findings]``): of each run the entries of that name. ``docs/findings.md`` is this page
for the committed caches (``scripts/write_findings.py``).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.findings import evidence_sentences as text
from exitbench.reports.findings.choice_effects import ChoiceEffect, choice_effects
from exitbench.reports.findings.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.duels import Duel, Duels, single
from exitbench.reports.findings.findings import contestants, markdown_environment
from exitbench.reports.findings.power import published_difference
from exitbench.reports.findings.rates import equal_share_duels
from exitbench.reports.findings.steadiness import CHANGES, order_pairs
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DIS_NOTE
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

PUBLISHED_SPEED_UP = 2.0
"""About what the paper's main table is for."""


@dataclass(frozen=True)
class PlainTable:
    """A small table of texts: its heading, and rows as long as that."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, its answer in sentences, the picture beside it, and where its numbers are many, a table."""

    question: str
    sentences: tuple[str, ...]
    chart: DotChart
    table: PlainTable | None = None


@dataclass(frozen=True)
class CacheDuels:
    """The subject against one opponent on one cache: by score at the primary speed-up, and by DIS layer by layer."""

    cache: CacheMetadata
    score: Duel
    dis: tuple[Duel, ...]


class ContestedRun:
    """One run with its subject and opponents, under the protocol that it is read by."""

    def __init__(self, run: FinishedRun, subject: RunEntry, others: Sequence[RunEntry]) -> None:
        self.run, self.subject, self.others = run, subject, tuple(others)
        self.protocol = run.leading_protocol()
        self.duels = Duels(run, self.protocol, subject, others)

    def against(self, other: RunEntry) -> list[CacheDuels]:
        """The subject against one opponent, cache by cache; rows without labels judge nobody."""
        primary = float(self.run.suite["primary_speed_up"])
        scores = {duel.question[0]: duel for duel in single(self.duels.score(other, primary))}
        by_layer: dict[str, list[Duel]] = {}
        for duel in self.duels.dis(other):
            by_layer.setdefault(duel.question[0], []).append(duel)
        return [
            CacheDuels(cache, scores[cache.name], tuple(by_layer.get(cache.name, ())))
            for cache in self.run.caches
            if cache.target == "labels"
        ]


class RunsTogether:
    """All answers of some runs; each run must have findings. Raises ValueError without any."""

    def __init__(self, runs: Iterable[FinishedRun]) -> None:
        self.contests = [ContestedRun(run, *named) for run in runs if (named := contestants(run)) is not None]
        if not self.contests:
            raise ValueError("expected runs whose suites have [findings], found none")
        self.subject = self.contests[0].subject.title

    @cached_property
    def opponents(self) -> list[str]:
        """The titles of all opponents, in the order of the suites."""
        return list(dict.fromkeys(other.title for contest in self.contests for other in contest.others))

    @cached_property
    def duels(self) -> dict[str, list[CacheDuels]]:
        """Opponent to the duels on every cache that has both; a cache of several runs counts in the first."""
        duels_on: dict[str, dict[str, CacheDuels]] = {title: {} for title in self.opponents}
        for contest in self.contests:
            for other in contest.others:
                for duels in contest.against(other):
                    duels_on[other.title].setdefault(duels.cache.name, duels)
        return {title: list(by_cache.values()) for title, by_cache in duels_on.items()}

    def opening(self) -> list[str]:
        """The answer in a paragraph."""
        every = {
            title: [duel for duels in by_cache for duel in (duels.score, *duels.dis)]
            for title, by_cache in self.duels.items()
        }
        return [
            text.headline(self.subject, every),
            text.evidence_scope([contest.run for contest in self.contests]),
            text.what_the_suites_are([contest.run for contest in self.contests]),
        ]

    def answers(self) -> list[AnsweredQuestion]:
        """Every question that the runs can answer, in order."""
        answers = [self.by_classes(), self.rates(), self.choices(), self.steadiness(), self.power(), self.paper()]
        return [answer for answer in answers if answer.sentences and not answer.chart.is_empty]

    def by_classes(self) -> AnsweredQuestion:
        """The subject against everyone, by the number of classes."""
        sentences, panels = [], []
        listed: list[tuple[str, ...]] = []
        for title, by_cache in self.duels.items():
            numbers = sorted({len(duels.cache.classes) for duels in by_cache})
            groups = {n: [duels for duels in by_cache if len(duels.cache.classes) == n] for n in numbers}
            sentences.append(text.classes_sentence(self.subject, title, groups_of(groups)))
            listed += text.classes_rows(title, groups_of(groups))
            rows = [
                DotRow(f"{n} classes", tuple(dot_of(duel) for duels in group for duel in duels.dis if duel.pair))
                for n, group in groups.items()
            ]
            panels.append(DotPanel(f"{self.subject} less {title}", tuple(rows)))
        caption = (
            f"DIS of {self.subject} less that of the others, one dot for each cache and layer of the tables, by the "
            "number of classes"
        )
        chart = DotChart("by-classes", caption, "difference of DIS in points; filled: shown", tuple(panels))
        return AnsweredQuestion(
            f"Does {self.subject} beat the others, and how does that depend on the number of classes?",
            tuple(sentences),
            chart,
            PlainTable(text.CLASSES_COLUMNS, tuple(listed)),
        )

    def rates(self) -> AnsweredQuestion:
        """Every signal's premature rate at equal exit shares against the first opponent's."""
        rival = self.contests[0].others[0].title
        by_entry: dict[str, dict[str, Duel]] = {}
        for contest in self.contests:
            other = next((entry for entry in contest.others if entry.title == rival), None)
            if other is None:
                continue
            for entry in contest.run.entries:
                if entry == other:
                    continue
                label = contest.run.label(entry.signal, entry.parameters)
                duels = Duels(contest.run, contest.protocol, entry, [other])
                for both in equal_share_duels(duels, other):
                    if both.premature.pair is not None:
                        by_entry.setdefault(label, {}).setdefault(both.premature.question[0], both.premature)
        listed = {label: list(duels.values()) for label, duels in by_entry.items()}
        rows = [DotRow(label, tuple(map(dot_of, duels))) for label, duels in listed.items()]
        caption = (
            f"Premature exiting rate less that of {rival} when both exit equal shares of the samples, a dot a cache"
        )
        chart = DotChart("premature-rate", caption, "difference in points; filled: shown", (DotPanel("", tuple(rows)),))
        return AnsweredQuestion(
            "Which signal lowers the premature rate when all exit equal shares?",
            tuple(text.rate_sentences(rival, listed)),
            chart,
            PlainTable(text.RATES_COLUMNS, tuple(text.rate_table_rows(listed))),
        )

    def choices(self) -> AnsweredQuestion:
        """What parameters, thresholds and protocols change."""
        effects: dict[str, ChoiceEffect] = {}
        seen: set[str] = set()
        for contest in self.contests:
            caches = {cache.name for cache in contest.run.caches}
            for effect in choice_effects(contest.run, contest.subject, contest.protocol):
                known = effects.get(effect.choice)
                if known is None:
                    effects[effect.choice] = effect
                elif not caches <= seen:  # the same caches again would count twice
                    effects[effect.choice] = known.with_more(effect)
            seen |= caches
        rows = [DotRow(effect.choice, effect.dots) for effect in effects.values()]
        caption = "What each choice changes in the task score near the suites' speed-ups, a dot a cache"
        chart = DotChart(
            "choices", caption, "change of the score in points; filled: shown", (DotPanel("", tuple(rows)),)
        )
        return AnsweredQuestion(
            "What do parameters, thresholds of each layer, calibration and the protocol change?",
            tuple(text.choice_sentence(effect) for effect in effects.values()),
            chart,
        )

    def steadiness(self) -> AnsweredQuestion:
        """How far the order of the signals is the same elsewhere."""
        every = [pair for contest in self.contests for pair in order_pairs(contest.run)]
        pairs = list({(pair.by, pair.caches): pair for pair in reversed(every)}.values())[::-1]  # the first run's
        across = [
            sentence
            for contest in self.contests
            for sentence in text.across_sentences(contest.run, contest.protocol, contest.subject, contest.others)
        ]
        panels = []
        for by in ("score", "DIS"):
            own = [pair for pair in pairs if pair.by == by]
            rows = [
                DotRow(words, tuple(Dot(pair.tau) for pair in own if pair.change == change))
                for change, words in CHANGES.items()
                if any(pair.change == change for pair in own)
            ]
            panels.append(DotPanel(f"by {by}", tuple(rows)))
        caption = "Kendall's tau between the orders of the signals on two caches that differ in one thing, a dot a pair"
        chart = DotChart("steadiness", caption, "Kendall's tau", tuple(panels), line=None)
        return AnsweredQuestion(
            "How steady is the order of the signals over seeds, tasks, models and shift?",
            (*text.steadiness_sentences(pairs), *across),
            chart,
        )

    def power(self) -> AnsweredQuestion:
        """How small a difference each cache could have shown."""
        smallest: dict[str, tuple[CacheMetadata, float]] = {}
        for contest in self.contests:
            for cache, value in text.smallest_differences(contest.run, contest.protocol):
                smallest.setdefault(cache.name, (cache, value))
        ordered = sorted(smallest.values(), key=lambda item: (item[0].rows, item[0].name))
        rows = [DotRow(f"{cache.name} ({cache.rows:,})", (Dot(value),)) for cache, value in ordered]
        caption = "The smallest difference of the task score that one paired test shows in four cases of five, by cache"
        chart = DotChart("power", caption, "points", (DotPanel("", tuple(rows)),), line=None)
        return AnsweredQuestion(
            "How small a difference could these rows have shown?", tuple(text.power_sentences(ordered)), chart
        )

    def paper(self) -> AnsweredQuestion:
        """The published differences beside ours, on the same tasks."""
        panels, sentences = [], []
        for title in self.opponents:
            rows, compared = [], []
            seen: set[str] = set()
            for contest in self.contests:
                other = next((entry for entry in contest.others if entry.title == title), None)
                if other is None or float(contest.run.suite["primary_speed_up"]) != PUBLISHED_SPEED_UP:
                    continue
                for duels in contest.against(other):
                    published = published_difference(contest.run, duels.cache, contest.subject, other)
                    if not math.isnan(published + duels.score.difference) and duels.cache.name not in seen:
                        seen.add(duels.cache.name)
                        label = f"{contest.run.task_title(duels.cache)}, {duels.cache.model}"
                        compared.append((published, duels.score))
                        rows.append(DotRow(label, (dot_of(duels.score), Dot(published, claimed=True, second=True))))
            if rows:
                panels.append(DotPanel(f"{self.subject} less {title}", tuple(rows)))
                sentences.append(text.published_sentence(self.subject, title, compared))
        caption = "Differences of the task score near 2×: ours with 95% intervals, and the paper's"
        chart = DotChart("paper", caption, "points", tuple(panels), kinds=("here", "the paper"))
        return AnsweredQuestion("Do the paper's differences appear?", tuple(sentences), chart)


def groups_of(groups: dict[int, list[CacheDuels]]) -> dict[int, tuple[list[Duel], list[Duel]]]:
    """The duels by DIS and by score of each number of classes."""
    return {
        number: ([duel for duels in group for duel in duels.dis], [duels.score for duels in group])
        for number, group in groups.items()
    }


def dot_of(duel: Duel) -> Dot:
    """A duel as a dot with its interval."""
    pair = duel.pair
    if pair is None:
        return Dot(math.nan)
    low, high = sorted((duel.sign * float(pair["low"]), duel.sign * float(pair["high"])))
    return Dot(duel.difference, low, high, is_claimed(float(pair["p_adjusted"])))


def evidence_page(evidence: RunsTogether, origin: str, folder: str, tables: str, more: Sequence[str]) -> str:
    """The page in Markdown; its pictures lie in ``folder`` beside it, and ``tables`` links to what is behind it.

    ``more`` are sentences on the networks, of which a run knows nothing.
    """
    environment = markdown_environment()
    template = environment.get_template("evidence.md.j2")
    return template.render(
        origin=origin,
        opening=evidence.opening(),
        answers=evidence.answers(),
        dis=DIS_NOTE,
        folder=folder,
        tables=tables,
        more=more,
    )
