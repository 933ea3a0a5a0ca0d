"""The order of the signals on some caches, and the order in which the paper's tables put them.

An order is made of point values: it tells who is above whom, not whether that could be chance. The values are
means over the tasks of one model; the paper's are means over the same tasks, of the signals that its tables hold.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, at_speed_up
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.published import counterparts, published_dis, published_score, score_file
from exitbench.reports.run_data.run_caches import CacheMetadata, Group
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.tables.table import Table, TableColumn, TableRow, label

Appearance = Literal["appears", "appears in part", "does not appear", "cannot be looked for"]
MOST_PAIRS = 0.75
"""The share of pairs of signals that must be in the paper's order for its order to appear."""
PUBLISHED_DEPTH = 12
"""The published DIS table names layers of networks this deep."""
SAME = 9
"""Values that agree in so many decimals are tied."""


@dataclass(frozen=True)
class Order:
    """Values of some signals by title, ours and the paper's; ``over`` counts what each of our values is the mean of.

    ``stood_in`` counts unmatched values in whose place the expected value at exactly the target speed-up is used.
    """

    ours: Mapping[str, float]
    paper: Mapping[str, float]
    over: int
    stood_in: int = 0

    @property
    def shared(self) -> list[str]:
        """The signals that both orders hold."""
        return [name for name in self.ours if name in self.paper]

    def pairs(self) -> tuple[int, int]:
        """How many pairs of shared signals are in the paper's order, of how many that both tell apart."""
        same = total = 0
        for first, second in itertools.combinations(self.shared, 2):
            ours = round(self.ours[first] - self.ours[second], SAME)
            paper = round(self.paper[first] - self.paper[second], SAME)
            if ours and paper:
                total += 1
                same += (ours > 0) == (paper > 0)
        return same, total

    def tau(self) -> float:
        """Kendall's rank correlation (tau-b) of the two orders; NaN with fewer than two shared signals."""
        names = self.shared
        if len(names) < 2:
            return math.nan
        return kendall_tau([round(self.ours[name], SAME) for name in names], [self.paper[name] for name in names])

    def first(self, name: str) -> bool:
        """Whether this signal is above all others that both orders hold."""
        return name in self.shared and rank({title: self.ours[title] for title in self.shared}, name) == (1, False)

    def appears(self, name: str) -> Appearance:
        """Whether the paper's order appears: ``name`` alone on top, and most pairs of signals as in the paper."""
        same, total = self.pairs()
        if name not in self.shared or not total:
            return "cannot be looked for"
        met = self.first(name) + (same >= MOST_PAIRS * total)
        return "appears" if met == 2 else "appears in part" if met else "does not appear"


def kendall_tau(first: Sequence[float], second: Sequence[float]) -> float:
    """Kendall's tau-b of two orders of a few things; NaN where one of them ties all. scipy's takes a second to load.

    >>> round(kendall_tau([1.0, 2.0, 3.0, 3.0], [1.0, 3.0, 2.0, 4.0]), 3)
    0.548
    """
    pairs = list(itertools.combinations(range(len(first)), 2))
    steps = [(first[a] - first[b], second[a] - second[b]) for a, b in pairs]
    agreement = sum(math.copysign(1.0, first * second) for first, second in steps if first and second)
    untied = [sum(step[side] != 0 for step in steps) for side in (0, 1)]
    if not all(untied):
        return math.nan
    return agreement / math.sqrt(untied[0]) / math.sqrt(untied[1])


def rank(values: Mapping[str, float], name: str) -> tuple[int, bool]:
    """The rank of a name from 1 at the highest value, and whether it shares it.

    >>> rank({"a": 2.0, "b": 3.0, "c": 2.0}, "a")
    (2, True)
    """
    value_of_name = round(values[name], SAME)
    others = [round(value, SAME) for other, value in values.items() if other != name]
    return 1 + sum(value > value_of_name for value in others), value_of_name in others


def rank_text(values: Mapping[str, float], name: str) -> str:
    """The rank as it is printed, with a sign before a shared one."""
    if name not in values:
        return "–"
    number, shared = rank(values, name)
    return f"={number}" if shared else str(number)


def titles_of(run: FinishedRun) -> list[tuple[RunEntry, str]]:
    """The entries that stand for a title, what the published tables know a signal by."""
    return [(entry, title) for title, entry in counterparts(run).items()]


def score_near(
    run: FinishedRun, cache: CacheMetadata, protocol: str, entry: RunEntry, point: OperatingPoint
) -> tuple[float, bool]:
    """The score near a speed-up, or in place of one elsewhere the value at exactly it; whether that was needed.

    NaN for a degenerate value that is near: it is that of a fixed layer.
    """
    measure = cache.measure
    row = run.row(cache, protocol, entry.signal, entry.parameters, measure, point)
    if row is not None and row.status in ("ok", "unreliable"):
        return row.value, False
    exact = run.row(cache, protocol, entry.signal, entry.parameters, measure, point, None, "randomised")
    return (math.nan, False) if exact is None else (exact.value, True)


def score_order(run: FinishedRun, caches: Sequence[CacheMetadata], protocol: str) -> Order:
    """The order by mean task score near the primary speed-up; the paper's is for about twice the speed."""
    speed_up = float(run.suite["primary_speed_up"])
    ours, paper, stood_in = {}, {}, 0
    for entry, title in titles_of(run):
        scores = [score_near(run, cache, protocol, entry, at_speed_up(speed_up)) for cache in caches]
        if scores and not any(math.isnan(value) for value, _ in scores):
            ours[title] = math.fsum(value for value, _ in scores) / len(scores)
            stood_in += sum(exact for _, exact in scores)
        figures = [published_score(score_file(cache.model), title, run.task_title(cache)) for cache in caches]
        printed = [figure.value for figure in figures if figure is not None]
        if speed_up == 2 and caches and len(printed) == len(caches):
            paper[title] = math.fsum(printed) / len(printed)
    return Order(ours=ours, paper=paper, over=len(caches), stood_in=stood_in)


def dis_order(run: FinishedRun, caches: Sequence[CacheMetadata], protocol: str) -> Order:
    """The order by mean DIS over the suite's layers at which every signal has one."""
    entries = titles_of(run)
    ours: dict[str, list[float]] = {title: [] for _, title in entries}
    paper: dict[str, list[float]] = {title: [] for _, title in entries}
    over = 0
    for cache in caches:
        for layer in cache.table_layers:
            rows = [
                run.row(cache, protocol, entry.signal, entry.parameters, "dis", NOWHERE, layer) for entry, _ in entries
            ]
            values = [math.nan if row is None else row.value for row in rows]
            if any(math.isnan(value) for value in values):
                continue
            over += 1
            for (_, title), value in zip(entries, values, strict=True):
                ours[title].append(value)
                figure = published_dis(title, run.task_title(cache), layer) if cache.layers == PUBLISHED_DEPTH else None
                if figure is not None:
                    paper[title].append(figure.value)
    most = max((len(values) for values in paper.values()), default=0)
    return Order(
        {title: math.fsum(values) / len(values) for title, values in ours.items() if values},
        {title: math.fsum(values) / len(values) for title, values in paper.items() if most and len(values) == most},
        over,
    )


def published_part(run: FinishedRun, group: Group) -> tuple[CacheMetadata, ...]:
    """The caches of a group whose task and layers the published DIS table has."""
    return tuple(
        cache
        for cache in group.caches
        if cache.layers == PUBLISHED_DEPTH
        and any(
            all(published_dis(title, run.task_title(cache), layer) for layer in cache.table_layers)
            for _, title in titles_of(run)
        )
    )


@dataclass(frozen=True)
class GroupOrders:
    """Both orders of one model: by score over all its tasks, by DIS over those the paper has DIS for, else over all."""

    title: str
    tasks: tuple[str, ...]
    dis_tasks: tuple[str, ...]
    score: Order
    dis: Order


def group_orders(run: FinishedRun, protocol: str) -> list[GroupOrders]:
    """The orders of every model and split of a run."""
    orders = []
    for group in run.groups:
        ranked = published_part(run, group) or group.caches
        orders.append(
            GroupOrders(
                title=run.group_title(group),
                tasks=tuple(run.task_title(cache) for cache in group.caches),
                dis_tasks=tuple(run.task_title(cache) for cache in ranked),
                score=score_order(run, group.caches, protocol),
                dis=dis_order(run, ranked, protocol),
            )
        )
    return orders


def order_table(order: Order, title: str, tasks: str) -> Table:
    """One row per signal, the best first: our mean and rank, the paper's mean and rank."""
    rows = []
    for name in sorted(order.ours, key=lambda name: -order.ours[name]):
        cells = [
            label(text)
            for values in (order.ours, order.paper)
            for text in (fixed(values.get(name, math.nan), 1), rank_text(values, name))
        ]
        rows.append(TableRow(cells=(label(name), *cells), kind="other"))
    columns = [
        TableColumn("Signal"),
        *(TableColumn(title=heading, measure="rank") for heading in ("here", "rank", "paper", "rank in the paper")),
    ]
    notes = [f"Means over {tasks}. = shares the rank; – is not in the paper's table."]
    if order.stood_in:
        notes.append(
            f"{order.stood_in} of the values were more than 2% away from the wanted speed-up; in their place is "
            "the expected value at exactly it."
        )
    return Table(
        name="",
        title=title,
        question="Who is above whom, here and in the paper?",
        topic="main",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=tuple(notes),
    )


def agreement_table(run: FinishedRun, protocol: str, subject: RunEntry) -> Table:
    """One row per cache: the subject's rank and how many pairs are ordered as in the paper, by score and by DIS."""
    rows = []
    for cache in run.caches:
        cells = []
        for order in (score_order(run, [cache], protocol), dis_order(run, [cache], protocol)):
            same, total = order.pairs()
            here = rank_text(order.ours, subject.title)
            cells += [
                label(f"{here} of {len(order.ours)}" if here != "–" else here),
                label(rank_text(order.paper, subject.title)),
                label(f"{same} of {total}" if total else "–"),
                label(fixed(order.tau(), 2)),
            ]
        rows.append(TableRow(cells=(label(task_with_model(run, cache)), *cells), kind="other"))
    columns = [TableColumn("Task")]
    for heading in ("score", "DIS"):
        names = (f"rank of {subject.title}", "in the paper", "pairs as in the paper", "Kendall's tau")
        columns += [TableColumn(title=name, group=heading, measure="rank") for name in names]
    return Table(
        name="",
        title="Task by task",
        question=f"Does {subject.title} come first, and do the others follow in the paper's order?",
        topic="main",
        columns=tuple(columns),
        rows=tuple(rows),
        notes=(
            "Pairs of signals that the paper's table holds too and that neither order ties; ranks of DIS by its mean "
            "over the layers at which every signal has one. – the paper has no such figures.",
        ),
    )
