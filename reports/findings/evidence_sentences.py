"""The sentences of the evidence page: counts and means of what the paired tests of several runs found."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.vocabulary import DETECTABLE
from exitbench.reports.findings.choice_effects import ChoiceEffect
from exitbench.reports.findings.choices import mean, signed
from exitbench.reports.findings.duels import Duel, tally
from exitbench.reports.findings.sentences import counted, span
from exitbench.reports.findings.steadiness import CHANGES, OrderPair
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.across.across_tables import below_random_notes


def headline(subject: str, duels: Mapping[str, Sequence[Duel]]) -> str:
    """How often the subject is shown to be better and worse than each opponent, over all caches, scores and layers."""
    parts = []
    for title, every in duels.items():
        counts = tally(every)
        compared = len(every) - counts["not compared"]
        parts.append(f"better than {title} in {counts['better']}, worse in {counts['worse']} of {compared}")
    return (
        f"Over all caches, by task score and by DIS at the layers of the tables, {subject} is shown to be "
        f"{'; '.join(parts)} comparisons; in the others these rows cannot tell."
    )


def evidence_scope(runs: Sequence[FinishedRun]) -> str:
    """What the page rests on."""
    caches = {cache.name: cache for run in runs for cache in run.caches}
    classes = sorted({len(cache.classes) for cache in caches.values()})
    suites = ", ".join(f"{run.suite['name']} ({run.leading_protocol()})" for run in runs)
    return (
        f"It rests on {counted(len(caches), 'cache')} with {', '.join(map(str, classes))} classes and "
        f"{span([float(cache.rows) for cache in caches.values()], 0)} rows, in the suites {suites}; the protocol in "
        "brackets is the one that is read."
    )


def what_the_suites_are(runs: Sequence[FinishedRun]) -> str:
    """What each suite says of itself, its networks' strength included: a reader must know on what a number rests."""
    return "; ".join(f"{run.suite['name']}: {run.suite['description']}" for run in runs) + "."


def classes_sentence(subject: str, other: str, groups: Mapping[int, tuple[Sequence[Duel], Sequence[Duel]]]) -> str:
    """The subject against one other: the mean difference of DIS where classes are fewest, and where they are most."""
    known = {number: values for number, (ranks, _) in groups.items() if (values := known_differences(ranks))}
    if not known:
        return f"{subject} less {other}: no difference of DIS is known on 0 caches."
    ends = [
        f"{signed(mean(known[number]), 1)} points with {number} classes"
        for number in dict.fromkeys((min(known), max(known)))
    ]
    return f"{subject} less {other}, mean difference of DIS: {', '.join(ends)}."


CLASSES_COLUMNS = (
    *("against", "classes"),
    *("DIS, mean difference", "DIS: better, worse, of"),
    *("score, mean difference", "score: better, worse, of"),
)


def classes_rows(other: str, groups: Mapping[int, tuple[Sequence[Duel], Sequence[Duel]]]) -> Iterator[tuple[str, ...]]:
    """The subject against one other, a row for each number of classes: mean differences and verdicts."""
    for number, by_measure in groups.items():
        cells = []
        for duels in by_measure:
            known, counts = known_differences(duels), tally(duels)
            cells += (
                [signed(mean(known), 1), f"{counts['better']}, {counts['worse']}, {len(known)}"]
                if known
                else ["–", "–"]
            )
        yield (other, str(number), *cells)


def known_differences(duels: Sequence[Duel]) -> list[float]:
    """The differences that are known."""
    return [duel.difference for duel in duels if not math.isnan(duel.difference)]


RATES_COLUMNS = ("signal", "mean difference", "shown lower on", "shown higher on", "caches")


def rate_table_rows(by_entry: Mapping[str, Sequence[Duel]]) -> list[tuple[str, ...]]:
    """Every signal's premature rate less the rival's at equal exit shares, the lowest mean first."""
    ordered = sorted(by_entry.items(), key=lambda item: mean([duel.difference for duel in item[1]]))
    return [
        (
            label,
            signed(mean([duel.difference for duel in duels]), 1),
            *(str(tally(duels)[verdict]) for verdict in ("better", "worse")),
            str(len(duels)),
        )
        for label, duels in ordered
    ]


def rate_sentences(rival: str, by_entry: Mapping[str, Sequence[Duel]]) -> Iterator[str]:
    """Which signals have a lower premature rate than the rival at equal exit shares more often than a higher one."""
    if not by_entry:
        return
    sides: dict[str, list[str]] = {"lower": [], "higher": [], "neither": []}
    for label, duels in by_entry.items():
        counts = tally(duels)
        side = (
            "lower"
            if counts["better"] > counts["worse"]
            else "higher"
            if counts["worse"] > counts["better"]
            else "neither"
        )
        sides[side].append(f"{label} ({counts['better']} to {counts['worse']} of {counted(len(duels), 'cache')})")
    yield (
        f"When as many samples exit at each layer as it gets right, {len(sides['lower'])} of "
        f"{counted(len(by_entry), 'signal')} are shown to have a lower premature rate than {rival} on more caches "
        "than a higher one; in brackets on how many lower and higher."
    )
    for side, words in (("lower", "Lower more often"), ("higher", "Higher more often"), ("neither", "As often")):
        if sides[side]:
            yield f"{words}: {', '.join(sides[side])}."


def choice_sentence(effect: ChoiceEffect) -> str:
    """What one choice changes, with its range."""
    values = [dot.value for dot in effect.dots]
    if effect.is_spread:
        return (
            f"{effect.choice}: {fixed(statistics.median(values), 1)} points in the median, at most "
            f"{fixed(max(values), 1)} ({counted(len(values), 'cache')})."
        )
    shown = sum(dot.claimed for dot in effect.dots)
    tested = any(not math.isnan(dot.low) for dot in effect.dots)
    claim = f", shown in {shown} of {len(values)}" if tested else f" ({len(values)} values)"
    return f"{effect.choice}: {signed(mean(values), 2)} points in the mean, {span(values)}{claim}."


def steadiness_sentences(pairs: Sequence[OrderPair]) -> Iterator[str]:
    """For each thing that two caches may differ in, how alike the orders are."""
    for change, words in CHANGES.items():
        parts = []
        for by in ("score", "DIS"):
            own = [pair for pair in pairs if (pair.change, pair.by) == (change, by)]
            if own:
                taus, same = [pair.tau for pair in own], sum(pair.same_first for pair in own)
                parts.append(
                    f"by {by} tau is {fixed(statistics.median(taus), 2)} in the median ({span(taus, 2)}), and of the "
                    f"signals that both have the same comes first in {same} of {counted(len(own), 'pair')}"
                )
        if parts:
            yield f"With {words}: {'; '.join(parts)}."


def across_sentences(run: FinishedRun, protocol: str, subject: RunEntry, others: Sequence[RunEntry]) -> Iterator[str]:
    """What several networks for each task say: normalised scores, and how often the subject beats each opponent."""
    for group in run.groups_under(protocol):
        rows = run.across_of(group, protocol)
        means = [row for row in rows if row["statistic"] == "interquartile_mean"]
        if not means:
            continue
        listed = "; ".join(
            f"{run.label(row['signal_a'], row['parameters_a'])} {with_ends(row, 2)}"
            for row in sorted(means, key=lambda row: -float(row["value"]))
        )
        count, tasks = len(group.caches), int(means[0]["tasks"])
        yield (
            f"Over {count} networks on {counted(tasks, 'task')}, the interquartile mean of the score between random "
            f"exits (0) and the oracle (1) is: {listed}."
        )
        yield from below_random_notes(run, group, protocol, means)
        name = subject.signal, subject.parameters
        rivals = {(other.signal, other.parameters): other.title for other in others}
        chances = [
            f"more than {rivals[second]} with a chance of {with_ends(row, 2)}"
            for row in rows
            if row["statistic"] == "improvement"
            and (row["signal_a"], row["parameters_a"]) == name
            and (second := (row["signal_b"], row["parameters_b"])) in rivals
        ]
        if chances:
            yield f"On one of these networks {subject.title} scores {', '.join(chances)}."


def with_ends(row: Mapping[str, Any], places: int) -> str:
    """A value with its 95% interval."""
    return f"{fixed(row['value'], places)} [{fixed(row['low'], places)}, {fixed(row['high'], places)}]"


def smallest_differences(run: FinishedRun, protocol: str) -> Iterator[tuple[CacheMetadata, float]]:
    """What one paired test of the score at the primary speed-up could show on each cache."""
    at = at_speed_up(float(run.suite["primary_speed_up"]))
    for cache in run.caches:
        row = run.row(cache, protocol, DETECTABLE, "", cache.measure, at)
        if row is not None and not math.isnan(row.value):
            yield cache, row.value


def power_sentences(smallest: Sequence[tuple[CacheMetadata, float]]) -> Iterator[str]:
    """The least and the most that the rows of a cache could show."""
    if not smallest:
        return
    (best, least), (worst, most) = (pick(smallest, key=lambda item: item[1]) for pick in (min, max))
    yield (
        f"One paired test of two signals' scores shows a true difference of {fixed(least, 1)} points in four cases of "
        f"five on {best.name} ({best.rows:,} rows), and no less than {fixed(most, 1)} points on {worst.name} "
        f"({worst.rows:,} rows); the median over {counted(len(smallest), 'cache')} is "
        f"{fixed(statistics.median(value for _, value in smallest), 1)}."
    )


def published_sentence(subject: str, other: str, compared: Sequence[tuple[float, Duel]]) -> str:
    """The paper's differences beside ours on the same tasks."""
    published, ours = [figure for figure, _ in compared], [duel.difference for _, duel in compared]
    duels = [duel for _, duel in compared]
    counts = tally(duels)
    same = sum(figure * value > 0 for figure, value in zip(published, ours, strict=True))
    return (
        f"{subject} less {other}: the paper has {span(published)} points, here it is {span(ours)}; the sign agrees on "
        f"{same} of {counted(len(ours), 'cache')}, and it is shown to be better on {counts['better']} and worse on "
        f"{counts['worse']}."
    )
