"""How small a difference could these rows have shown?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.vocabulary import ADJUSTED, DETECTABLE
from exitbench.reports.findings.evidence.answers import AnsweredQuestion
from exitbench.reports.findings.evidence.contested_runs import ContestedRun, RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.sentences import counted
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.run_caches import CacheMetadata

Smallest = tuple[CacheMetadata, float, float]
"""A cache with the smallest difference that one paired test shows there, and one of all pairs of its column."""


def power_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """How small a difference each cache could have shown."""
    smallest: dict[str, Smallest] = {}
    for contest in evidence.contests:
        for item in smallest_differences(contest):
            smallest.setdefault(item[0].name, item)
    if not smallest:
        return None
    ordered = sorted(smallest.values(), key=lambda item: (item[0].rows, item[0].task, item[0].model, item[0].name))
    by_label: dict[str, list[Dot]] = {}
    for cache, value, adjusted in ordered:
        label = f"{cache.task}, {cache.model} ({cache.rows:,} rows)"
        by_label.setdefault(label, []).extend((Dot(value), Dot(adjusted, second=True)))
    rows = [DotRow(label, tuple(dots)) for label, dots in by_label.items()]
    chart = DotChart(
        "power",
        "The smallest difference of the task score that is shown in four cases of five, a dot for each cache",
        "points",
        (DotPanel("", tuple(rows)),),
        line=None,
        kinds=("one test", "after Holm's adjustment"),
    )
    return AnsweredQuestion(
        "How small a difference could these rows have shown?",
        power_short(ordered),
        tuple(average_sentences(evidence)),
        chart,
    )


def smallest_differences(contest: ContestedRun) -> Iterator[Smallest]:
    """What a paired test of the score at the primary speed-up could show on each cache."""
    run, at = contest.run, at_speed_up(float(contest.run.suite["primary_speed_up"]))
    for cache in run.caches:
        if cache.target != "labels":
            continue
        rows = [run.row(cache, contest.protocol, DETECTABLE, which, cache.measure, at) for which in ("", ADJUSTED)]
        values = [math.nan if row is None else row.value for row in rows]
        if not math.isnan(values[0]):
            yield cache, values[0], values[1]


def power_short(smallest: Sequence[Smallest]) -> str:
    """The least and the most that the rows of a cache could show."""
    (best, least, _), (worst, most, _) = (pick(smallest, key=lambda item: item[1]) for pick in (min, max))
    adjusted = [value for _, _, value in smallest if not math.isnan(value)]
    text = (
        f"One paired test of two signals' scores shows a true difference of {fixed(least, 1)} points in four cases of "
        f"five on {best.name} ({best.rows:,} rows), and no less than {fixed(most, 1)} points on {worst.name} "
        f"({worst.rows:,} rows); the median over {counted(len(smallest), 'cache')} is "
        f"{fixed(statistics.median(value for _, value, _ in smallest), 1)}"
    )
    if adjusted:
        text += f", and {fixed(statistics.median(adjusted), 1)} where all pairs of signals are tested"
    return f"{text}."


def average_sentences(evidence: RunsTogether) -> Iterator[str]:
    """What the averages over tasks of each model could show."""
    for contest in evidence.contests:
        at = at_speed_up(float(contest.run.suite["primary_speed_up"]))
        for group in contest.run.groups_under(contest.protocol):
            row = contest.run.average_row(group, contest.protocol, DETECTABLE, "", group.average_measure, at)
            tasks = len({cache.task for cache in group.caches})
            if row is not None and not math.isnan(row.value) and tasks > 1:
                yield (
                    f"{contest.run.suite['name']}: the average of {group.model} over {counted(tasks, 'task')} and "
                    f"{counted(len(group.caches), 'network')} shows {fixed(row.value, 1)} points."
                )
