"""How steady is the order of the signals over seeds, tasks, models and shift?"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from exitbench.benchmarks.statistics.networks_and_tasks import FEWEST_TASKS, variance_parts
from exitbench.reports.findings.choices import mean
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable
from exitbench.reports.findings.evidence.contested_runs import ContestedRun, RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import CacheValue, interval_end
from exitbench.reports.findings.evidence.steadiness import CHANGES, Change, OrderPair, every_order_pair, mean_tau
from exitbench.reports.findings.sentences import counted, span
from exitbench.reports.run_data.finished_run import AcrossRow
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.run_caches import Group
from exitbench.reports.tables.across.across_tables import below_random_notes

ORDERS = ("score", "DIS")
ACROSS_COLUMNS = ("networks", "signal", "rank by score", "rank by DIS", "normalised score")
Name = tuple[str, str]
STEADINESS_COLUMNS = ("with", "by", "tau, mean", "about", "median", "lowest to highest", "same first", "pairs")


def steadiness_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """How far the order of the signals is the same elsewhere."""
    pairs = every_order_pair(evidence.contests)
    if not pairs:
        return None
    chart = DotChart(
        "steadiness",
        "Kendall's tau between the orders of the signals on two caches that differ in one thing",
        "Kendall's tau",
        tuple(tau_panel(by, pairs) for by in ORDERS if any(pair.by == by for pair in pairs)),
        line=None,
        kinds=("a pair of caches", "mean over tasks"),
    )
    note = (
        "Kendall's tau-b over the signals that both caches have. Pairs share caches, so intervals are drawn over "
        "tasks: Student's, and for pairs of tasks a jackknife; – where there are too few. Same first: pairs on which "
        "one signal leads both."
    )
    groups = across_groups(evidence)
    sentences = [*(text for group in groups for text in across_sentences(group)), *variance_sentences(evidence)]
    across = across_table(groups)
    return AnsweredQuestion(
        "How steady is the order of the signals over seeds, tasks, models and shift?",
        steadiness_short(pairs),
        tuple(sentences),
        chart,
        (PlainTable(STEADINESS_COLUMNS, tuple(steadiness_rows(pairs)), note), *([across] if across else [])),
    )


def selected(pairs: Sequence[OrderPair], change: Change, by: str) -> list[OrderPair]:
    """The pairs that differ in one thing, by one order."""
    return [pair for pair in pairs if (pair.change, pair.by) == (change, by)]


def tau_panel(by: str, pairs: Sequence[OrderPair]) -> DotPanel:
    """A row for each thing that differs."""
    rows = []
    for change, words in CHANGES.items():
        own = selected(pairs, change, by)
        if own:
            middle = mean_tau(own)
            dots = (*(Dot(pair.tau) for pair in own), Dot(middle.value, middle.low, middle.high, second=True))
            rows.append(DotRow(words, dots))
    return DotPanel(f"by {by}", tuple(rows))


def tau_text(pairs: Sequence[OrderPair]) -> str:
    """The mean of tau with its interval, cut at 1, without a sign where it is positive."""
    middle = mean_tau(pairs)
    if not middle.has_interval:
        return fixed(middle.value, 2)
    return (
        f"{fixed(middle.value, 2)} [{interval_end(max(middle.low, -1.0), 2)}, {interval_end(min(middle.high, 1.0), 2)}]"
    )


def steadiness_short(pairs: Sequence[OrderPair]) -> str:
    """The mean of tau for each thing that differs, by both orders."""
    parts = []
    for change, words in CHANGES.items():
        own = [f"{tau_text(of_order)} by {by}" for by in ORDERS if (of_order := selected(pairs, change, by))]
        if own:
            parts.append(f"with {words} {' and '.join(own)}")
    return f"Kendall's tau between two orders of the signals is, in the mean: {'; '.join(parts)}."


def steadiness_rows(pairs: Sequence[OrderPair]) -> Iterator[tuple[str, ...]]:
    """A row for each thing that differs and each order."""
    for change, words in CHANGES.items():
        for by in ORDERS:
            own = selected(pairs, change, by)
            if own:
                taus, same = [pair.tau for pair in own], sum(pair.same_first for pair in own)
                about = mean_tau(own).about if mean_tau(own).has_interval else "–"
                middle, ends = fixed(statistics.median(taus), 2), span(taus, 2)
                yield (words, by, tau_text(own), about, middle, ends, str(same), str(len(own)))


@dataclass(frozen=True)
class NetworksGroup:
    """A model's networks and tasks in one run, with the statistics across them."""

    contest: ContestedRun
    group: Group
    rows: tuple[AcrossRow, ...]

    @property
    def title(self) -> str:
        tasks = len({cache.task for cache in self.group.caches})
        return f"{self.group.model}, {counted(len(self.group.caches), 'network')} on {counted(tasks, 'task')}"

    def of(self, statistic: str, measure: str | None = None) -> dict[Name, AcrossRow]:
        """The rows of a statistic by the entry that they are about."""
        return {
            (row["signal_a"], row["parameters_a"]): row
            for row in self.rows
            if row["statistic"] == statistic and measure in (None, row["measure"])
        }

    @property
    def ranked(self) -> list[str]:
        """The measures that have average ranks."""
        return [row["measure"] for row in self.rows if row["statistic"] == "critical_difference"]

    def label(self, name: Name) -> str:
        return self.contest.run.label(*name)


def across_groups(evidence: RunsTogether) -> list[NetworksGroup]:
    """The groups that have ranks or normalised scores."""
    groups = []
    for contest in evidence.contests:
        for group in contest.run.groups_under(contest.protocol):
            rows = tuple(contest.run.across_of(group, contest.protocol))
            if {"critical_difference", "interquartile_mean"} & {row["statistic"] for row in rows}:
                groups.append(NetworksGroup(contest, group, rows))
    return groups


def across_sentences(group: NetworksGroup) -> Iterator[str]:
    """What several networks and tasks of a model say together: ranks, improvement, sources of variance."""
    for measure in group.ranked:
        critical = float(next(iter(group.of("critical_difference", measure).values()))["value"])
        ranks = {name: float(row["value"]) for name, row in group.of("average_rank", measure).items()}
        first = min(ranks, key=lambda name: ranks[name])
        level = sum(rank - ranks[first] <= critical for rank in ranks.values())
        yield (
            f"{group.title}: by {by_measure(measure)}, {group.label(first)} has the best average rank "
            f"({fixed(ranks[first], 1)} of {len(ranks)}); with a critical difference of {fixed(critical, 1)}, {level} "
            f"of {len(ranks)} signals are not shown to rank behind it."
        )
    yield from improvement_sentence(group)
    if group.of("interquartile_mean"):
        means = list(group.of("interquartile_mean").values())
        yield from below_random_notes(group.contest.run, group.group, group.contest.protocol, means)


def improvement_sentence(group: NetworksGroup) -> Iterator[str]:
    """The chance that the subject scores more than each opponent on the same network."""
    subject = group.contest.subject
    rivals = {(other.signal, other.parameters): other.title for other in group.contest.others}
    chances = [
        f"more than {rivals[second]} with a chance of {with_ends(row, 2)}"
        for row in group.rows
        if row["statistic"] == "improvement"
        and (row["signal_a"], row["parameters_a"]) == (subject.signal, subject.parameters)
        and (second := (row["signal_b"], row["parameters_b"])) in rivals
    ]
    if chances:
        yield f"{group.title}: on one of these networks {subject.title} scores {', '.join(chances)}."


def variance_sentences(evidence: RunsTogether) -> Iterator[str]:
    """How much of the variance of what the subject is ahead by comes from rows, networks and tasks.

    Of every run with several networks of one model on several tasks, by score at its primary speed-up.
    """
    for contest in evidence.contests:
        for group in contest.run.groups_under(contest.protocol):
            counts = Counter(cache.task for cache in group.caches)
            if len(counts) < FEWEST_TASKS or min(counts.values()) < 2:
                continue
            names = {cache.name for cache in group.caches}
            parts = []
            for other in contest.others:
                values = [each.score_value for each in contest.against(other) if each.cache.name in names]
                shares = difference_variance(values)
                if len(values) == len(names) and shares:
                    parts.append(f"less {other.title} {shares}")
            if parts:
                tasks = counted(len(counts), "task")
                yield (
                    f"{group.model}, {counted(len(names), 'network')} on {tasks}: the variance of one network's score "
                    f"difference on one task from rows, networks and tasks is, for {contest.subject.title} "
                    f"{'; '.join(parts)}."
                )


def difference_variance(values: Sequence[CacheValue]) -> str:
    """The parts of the variance of a difference, in squared points and percent; empty where one is missing."""
    by_task: dict[str, list[CacheValue]] = {}
    for value in values:
        by_task.setdefault(value.task, []).append(value)
    if any(math.isnan(value.value + value.std_err) for value in values):
        return ""
    parts = variance_parts(
        [np.array([value.value for value in several]) for several in by_task.values()],
        [mean([value.std_err for value in several]) for several in by_task.values()],
    )
    sizes = (parts.rows, parts.networks, parts.tasks)
    total = math.fsum(sizes)
    if not total > 0:
        return ""
    percent = ", ".join(f"{100 * size / total:.0f}%" for size in sizes)
    return f"{fixed(total, 2)} squared points ({percent})"


def across_table(groups: Sequence[NetworksGroup]) -> PlainTable | None:
    """Average ranks and normalised scores of every signal, a row for each signal of each group."""
    rows: list[tuple[str, ...]] = []
    for group in groups:
        by_score = [measure for measure in group.ranked if measure != "dis"]
        ranks = [group.of("average_rank", measure) for measure in (*by_score[:1], "dis")]
        ranks = [{}, *ranks] if not by_score else ranks
        means = group.of("interquartile_mean")
        names = dict.fromkeys(name for known in (ranks[1], ranks[0], means) for name in known)
        for name in sorted(names, key=lambda name: order_key(ranks[1].get(name), ranks[0].get(name))):
            cells = [fixed(known[name]["value"], 1) if name in known else "–" for known in ranks]
            rows.append((group.title, group.label(name), *cells, with_ends(means[name], 2) if name in means else "–"))
    if not rows:
        return None
    note = (
        "Rank 1 is best; – where a signal has no score that counts on some network. Normalised score: interquartile "
        "mean between random exits (0) and the oracle (1) at the same speed-up, networks drawn anew within each task."
    )
    return PlainTable(ACROSS_COLUMNS, tuple(rows), note)


def order_key(*rows: AcrossRow | None) -> tuple[float, ...]:
    """The values of some rows, those that are missing last."""
    return tuple(math.inf if row is None else float(row["value"]) for row in rows)


def by_measure(measure: str) -> str:
    """What an average rank is by, in words."""
    return "DIS" if measure == "dis" else "score"


def with_ends(row: AcrossRow, places: int) -> str:
    """A value with its 95% interval."""
    return f"{fixed(row['value'], places)} [{fixed(row['low'], places)}, {fixed(row['high'], places)}]"
