"""Does what holds on one model hold on another? On the tasks that two models of one run have both."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from exitbench.reports.findings.choices import mean
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable, shown_side
from exitbench.reports.findings.evidence.contested_runs import CacheDuels, RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import CacheValue, TasksEstimate, holm_adjusted, mean_over_tasks
from exitbench.reports.findings.evidence.steadiness import OrderPair, every_order_pair
from exitbench.reports.findings.evidence.steadiness_answer import ORDERS, tau_text
from exitbench.reports.findings.sentences import counted

FEWEST_TASKS_OF_MODELS = 2
"""Two models on one task say nothing about models."""


@dataclass(frozen=True)
class TwoModels:
    """Two models with the tasks that some run has of both, fewer layers first."""

    first: str
    second: str
    tasks: tuple[str, ...]

    @property
    def names(self) -> tuple[str, str]:
        first, second = sorted((self.first, self.second))
        return first, second


@dataclass(frozen=True)
class ModelsRow:
    """The subject less an opponent on two models: the means over shared tasks, and their difference."""

    other: str
    by: str
    first: TasksEstimate
    second: TasksEstimate
    change: TasksEstimate
    by_task: tuple[tuple[str, float], ...]


def shared_models(pairs: Sequence[OrderPair]) -> TwoModels | None:
    """The two models with the most tasks in common; None with fewer tasks than two."""
    tasks: dict[tuple[str, str], dict[str, None]] = {}
    layers: dict[str, int] = {}
    for pair in pairs:
        if pair.change == "model":
            tasks.setdefault(pair.models, {}).setdefault(pair.tasks[0])
            layers |= {cache.model: cache.layers for cache in pair.caches}
    if not tasks:
        return None
    names = max(tasks, key=lambda key: len(tasks[key]))
    if len(tasks[names]) < FEWEST_TASKS_OF_MODELS:
        return None
    first, second = sorted(names, key=lambda name: (layers[name], name))
    return TwoModels(first, second, tuple(tasks[names]))


def models_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """The order of the signals, and what the subject is ahead by, on two models."""
    pairs = every_order_pair(evidence.contests)
    models = shared_models(pairs)
    if models is None:
        return None
    rows = models_rows(evidence, models)
    if not rows:
        return None
    layers = {cache.model: cache.layers for cache in evidence.caches}
    titles = tuple(f"{name} ({layers[name]} layers)" for name in (models.first, models.second))
    panels = [
        DotPanel(
            f"by {by}",
            tuple(
                DotRow(
                    f"{evidence.subject} less {row.other}",
                    (
                        *(Dot(value) for _, value in row.by_task),
                        Dot(row.change.value, row.change.low, row.change.high, bool(row.change.side), second=True),
                    ),
                )
                for row in rows
                if row.by == by
            ),
        )
        for by in ORDERS
        if any(row.by == by for row in rows)
    ]
    chart = DotChart(
        "models",
        f"What {evidence.subject} is ahead by on {titles[1]}, less the same on {titles[0]}, on the same tasks",
        "change of the difference in points; filled: shown",
        tuple(panels),
        kinds=("a task", "mean over tasks"),
    )
    columns = ("less", "by", *titles, "second less first", "about")
    table = PlainTable(
        columns,
        tuple(
            (row.other, row.by, row.first.text(), row.second.text(), row.change.text(), row.change.about)
            for row in rows
        ),
        f"{evidence.subject} less the other, in points: means over the tasks that both models have "
        f"({', '.join(models.tasks)}); networks of one model are averaged first.",
    )
    return AnsweredQuestion(
        f"Does the order hold between {titles[0]} and {titles[1]}?",
        models_short(pairs, models),
        (models_change_sentence(evidence.subject, rows, titles),),
        chart,
        (table,),
    )


def models_short(pairs: Sequence[OrderPair], models: TwoModels) -> str:
    """Tau between the two models, beside that between networks of one of them on the same tasks of the same run."""
    parts = []
    for by in ORDERS:
        own = [pair for pair in pairs if (pair.change, pair.by, pair.models) == ("model", by, models.names)]
        if not own:
            continue
        same = sum(pair.same_first for pair in own)
        text = (
            f"by {by} tau between the models is {tau_text(own)}, and one signal leads on both in {same} of "
            f"{counted(len(own), 'pair')} of networks"
        )
        wheres = {(pair.run, pair.tasks[0]) for pair in own}
        seeds = [
            pair
            for pair in pairs
            if (pair.change, pair.by) == ("seed", by)
            and pair.models[0] in models.names
            and (pair.run, pair.tasks[0]) in wheres
        ]
        if seeds:
            gap = tau_gap(own, seeds)
            text += (
                f" (on {gap.tasks} of these tasks with several seeds, tau between seeds of one model is "
                f"{tau_text(seeds)}; between models less between seeds: {gap.text(2)})"
            )
        parts.append(text)
    return f"On {counted(len(models.tasks), 'task')} that both have: {'; '.join(parts)}."


def tau_gap(between: Sequence[OrderPair], seeds: Sequence[OrderPair]) -> TasksEstimate:
    """Tau between models less tau between seeds, task by task, where a run has both."""

    def by_task(pairs: Sequence[OrderPair]) -> dict[tuple[str, str], float]:
        cells: dict[tuple[str, str], list[CacheValue]] = {}
        for pair in pairs:
            value = CacheValue(pair.tasks[0], " and ".join(pair.models), pair.tau)
            cells.setdefault((pair.run, pair.tasks[0]), []).append(value)
        return {where: mean_over_tasks(values).value for where, values in cells.items()}

    models, alike = by_task(between), by_task(seeds)
    return mean_over_tasks(
        [CacheValue(where[1], "", models[where] - alike[where]) for where in models if where in alike]
    )


def models_rows(evidence: RunsTogether, models: TwoModels) -> list[ModelsRow]:
    """Every opponent by DIS and by score, where both models have a number on some task."""
    raw = list(unadjusted_rows(evidence, models))
    changes = holm_adjusted([row.change for row in raw])
    return [
        ModelsRow(row.other, row.by, row.first, row.second, change, row.by_task)
        for row, change in zip(raw, changes, strict=True)
    ]


def unadjusted_rows(evidence: RunsTogether, models: TwoModels) -> Iterator[ModelsRow]:
    """The rows without adjusted p-values."""
    for title, by in itertools.product(evidence.opponents, reversed(ORDERS)):
        sides: dict[str, dict[str, CacheValue]] = {models.first: {}, models.second: {}}
        for task in models.tasks:
            cells = first_shared_cells(evidence, title, task, models)
            values = {
                name: cell_mean([duels.dis_value if by == "DIS" else duels.score_value for duels in cell])
                for name, cell in cells.items()
            }
            if values and not any(math.isnan(value.value) for value in values.values()):
                for name, value in values.items():
                    sides[name][task] = value
        first, second = sides.values()
        if first:
            moved = [less(second[task], first[task]) for task in first]
            yield ModelsRow(
                title,
                by,
                mean_over_tasks(list(first.values())),
                mean_over_tasks(list(second.values())),
                mean_over_tasks(moved),
                tuple((value.task, value.value) for value in moved),
            )


def first_shared_cells(evidence: RunsTogether, title: str, task: str, models: TwoModels) -> dict[str, list[CacheDuels]]:
    """The duels of both models on a task, from the first run that has both; empty where none has."""
    for contest in evidence.contests:
        for other in contest.others:
            if other.title != title:
                continue
            duels = [each for each in contest.against(other) if each.cache.task == task]
            splits = dict.fromkeys(each.cache.split for each in duels)
            for split in splits:
                cells = {
                    name: [each for each in duels if (each.cache.model, each.cache.split) == (name, split)]
                    for name in (models.first, models.second)
                }
                if all(cells.values()):
                    return cells
    return {}


def less(second: CacheValue, first: CacheValue) -> CacheValue:
    """The difference between two models on a task; rows that they share make the true error smaller than this one."""
    return CacheValue(first.task, "", second.value - first.value, math.hypot(first.std_err, second.std_err))


def cell_mean(values: Sequence[CacheValue]) -> CacheValue:
    """The mean over networks of one model on one task, as if they erred alike on its rows."""
    known = [value for value in values if not math.isnan(value.value)]
    return CacheValue(
        values[0].task, values[0].model, mean([each.value for each in known]), mean([each.std_err for each in known])
    )


def models_change_sentence(subject: str, rows: Sequence[ModelsRow], titles: tuple[str, ...]) -> str:
    """Where the two models are shown to differ, and the largest change."""
    shown = sum(row.change.side != 0 for row in rows)
    largest = max(rows, key=lambda row: abs(row.change.value))
    return (
        f"In {shown} of {counted(len(rows), 'mean')} the two models are shown to differ in what {subject} is ahead "
        f"by; the largest change is against {largest.other} by {largest.by}: {largest.first.text()} points on "
        f"{titles[0]}, {largest.second.text()} on {titles[1]} "
        f"({shown_side(largest.change, 'shown to be higher', 'shown to be lower')}: {largest.change.text()})."
    )
