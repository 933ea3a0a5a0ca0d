"""The verdict of a run in two or three sentences, made from its results and never from an opinion.

A sentence is a sequence of texts and numbers; a number keeps the key of the row it was read from.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.sentences import listed, short_name
from exitbench.reports.verdict.absences import why_absent
from exitbench.reports.verdict.main_column import main_column
from exitbench.reports.verdict.standings import ColumnStanding, Lead, Standings
from exitbench.reports.verdict.subject_verdict import subject_sentence

Sentence = tuple[str | Number, ...]


@dataclass(frozen=True)
class RunVerdict:
    """What the page says first: sentences, and the standings that they were made from."""

    protocol: str
    speed_up: float
    sentences: tuple[Sentence, ...]
    standings: tuple[ColumnStanding, ...]


def verdict_of(standings: Standings) -> RunVerdict:
    """Who leads at the suite's primary speed-up, where that can be claimed, and who ranks right above wrong."""
    run = standings.run
    protocol = run.leading_protocol()
    speed_up = float(run.suite["primary_speed_up"])
    scores = standings.at_speed_up(speed_up, protocol)
    ranks = standings.at_layers(protocol)
    column = None if run.subject is None else main_column(standings)
    sentences = [
        () if run.subject is None or column is None else subject_sentence(column, run.subject),
        lead_sentence(scores, speed_up, protocol),
        absent_sentence(standings, scores),
        winners_sentence(scores),
        ranking_sentence(ranks),
        others_sentence(run, protocol),
    ]
    return RunVerdict(protocol, speed_up, tuple(sentence for sentence in sentences if sentence), tuple(scores))


def others_sentence(run: FinishedRun, protocol: str) -> Sentence:
    """Which tasks are measured under another protocol, so that the sentences before are not about them."""
    others = [cache for cache in run.caches if protocol not in cache.protocols]
    if not others:
        return ()
    names = listed([short_name(task_with_model(run, cache)) for cache in others])
    return (f"All this is {protocol}; {names} {'are' if len(others) > 1 else 'is'} {run.leading_protocol(others)}.",)


def lead_sentence(standings: Sequence[ColumnStanding], speed_up: float, protocol: str) -> Sentence:
    """The headline: the average over tasks where there is one, otherwise the first task."""
    if not standings:
        return (f"No score near {speed_up:g}× could be compared under the {protocol} protocol.",)
    first = standings[0]
    average = not first.cache
    where = f"averaged over the tasks of {short_name(first.question[1])}" if average else f"on {short_name(first.task)}"
    if first.compared < 2:
        head: Sentence = (
            f"Near {speed_up:g}×, {where}, {short_name(first.best)} scores ",
            first.score,
            *pace_of(first),
        )
        return (*head, f" ({protocol}); there was nothing to compare it with.")
    names = listed([short_name(name) for name in (first.best, *first.shared)])
    return (
        f"Near {speed_up:g}×, {where}, {names} {'share' if first.shared else 'keeps'} the highest score, ",
        first.score,
        *pace_of(first),
        f" ({protocol}); ",
        *certainty(first),
    )


def absent_sentence(standings: Standings, scores: Sequence[ColumnStanding]) -> Sentence:
    """Who could not be compared in the headline's column, so that its best is not taken for the best of all."""
    if not scores or scores[0].compared < 2:
        return ()
    run, question = standings.run, scores[0].question
    absent = standings.absent(question)
    if not absent:
        return ()
    listing = ", ".join(
        f"{short_name(run.label(entry.signal, entry.parameters))} ({why_absent(run, question, entry)})"
        for entry in absent
    )
    why = "is compared there" if scores[0].cache else "has a comparable score on every task"
    return (f"Not part of this: {listing}; only what {why} takes part.",)


def pace_of(standing: ColumnStanding) -> Sentence:
    """The speed-up that an operating point really has."""
    return () if standing.speed_up is None else (" at ", standing.speed_up, "×")


def certainty(standing: ColumnStanding) -> Sentence:
    """From whom the best differs, by how much, and from whom no difference can be claimed."""
    level = listed([short_name(name) for name in standing.level])
    subject = "they are" if standing.shared else "it is"
    if standing.behind is None:
        if not standing.level:
            return (f"{subject} ahead of every other signal." if standing.alone else "no other signal was compared.",)
        return (f"no difference from {level} can be claimed.",)
    other = short_name(standing.behind.other)
    if standing.level:
        start = f"no difference from {level} can be claimed, but {subject} ahead of {other} by "
    else:
        start = f"{subject} ahead of every other signal, of {other}, the next best, by "
    return (start, *margin(standing.behind), ".")


def margin(lead: Lead) -> Sentence:
    """A difference with its interval and p-value."""
    return (
        lead.difference,
        " points ",
        *interval_part(lead.difference),
        " (adjusted p ",
        *p_sentence(lead.p_value),
        ")",
    )


def interval_part(value: Number) -> Sentence:
    """The interval of a number, where it has one."""
    return (value.interval,) if value.interval else ()


def p_sentence(p_value: Number) -> Sentence:
    """A p-value behind its sign."""
    return (p_value,) if p_value.text.startswith("<") else ("= ", p_value)


def winners_sentence(standings: Sequence[ColumnStanding]) -> Sentence:
    """On how many tasks one signal stands alone at the top; on how many caches, where a task has several."""
    tasks = [standing for standing in standings if standing.cache and standing.compared > 1]
    named = any(standing.cache in standing.task for standing in tasks)
    lead, things = ("Cache by cache", "caches") if named else ("Task by task", "tasks")
    if len(tasks) < 2:
        return ()
    alone = [task for task in tasks if task.alone]
    others = [short_name(task.task) for task in tasks if not task.alone]
    if not alone:
        return (f"{lead}, no single winner can be claimed on any of the {len(tasks)} {things}.",)
    winners = listed([f"{short_name(task.best)} on {short_name(task.task)}{without(task)}" for task in alone])
    if not others:
        return (f"{lead}, one signal is clearly ahead on all {len(tasks)} {things}: {winners}.",)
    return (
        f"{lead}, one signal is clearly ahead on {len(alone)} of {len(tasks)} {things}: {winners}; "
        f"no single winner can be claimed on {listed(others)}.",
    )


def without(standing: ColumnStanding) -> str:
    """Who a winner was not compared with, in brackets; nothing where everybody took part."""
    return f" (without {listed([short_name(name) for name in standing.absent])})" if standing.absent else ""


def ranking_sentence(standings: Sequence[ColumnStanding]) -> Sentence:
    """Which signal is most often at the top when right predictions are to rank above wrong ones."""
    compared = [standing for standing in standings if standing.compared > 1]
    if not compared:
        return ()
    top = Counter(name for standing in compared for name in standing.leaders)
    alone = Counter(standing.best for standing in compared if standing.alone)
    most = max(top.values())
    leaders = listed([short_name(name) for name, count in top.items() if count == most])
    columns = f"{len(compared)} {'pairs' if len(compared) > 1 else 'pair'} of task and layer"
    verb = "is" if list(top.values()).count(most) == 1 else "are"
    single = listed(
        [f"{short_name(name)} ({count})" for name, count in sorted(alone.items(), key=lambda item: (-item[1], item[0]))]
    )
    tail = f"clearly ahead of all others: {single}." if alone else "nowhere is one signal clearly ahead of all others."
    return (
        f"At ranking right predictions above wrong ones (Difficulty Inversion Score, DIS, {columns}), {leaders} {verb} "
        "best or level with the best "
        f"most often ({most}); {tail}{seldom_compared(compared)}",
    )


def seldom_compared(standings: Sequence[ColumnStanding]) -> str:
    """Who takes part in some columns only, and can be at the top of no more than those."""
    absences = Counter(name for standing in standings for name in standing.absent)
    if not absences:
        return ""
    parts = [f"{short_name(name)} in {len(standings) - count}" for name, count in absences.items()]
    return f" Not compared in all {len(standings)}: {listed(parts)}."
