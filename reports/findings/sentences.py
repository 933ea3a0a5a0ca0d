"""The sentences of the findings: each is put together from counted and measured facts, and says what they say."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from exitbench.benchmarks.statistics.power import claimable
from exitbench.reports.findings.choices import ProtocolChange, Spread, furthest_from_zero, mean, signed
from exitbench.reports.findings.duels import Duel, single, tally, tally_text
from exitbench.reports.findings.paper_order import GroupOrders, Order, rank
from exitbench.reports.findings.rates import RateDuels
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.identical import Identical
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.run_data.published import ParameterRange
from exitbench.reports.sentences import listed, short_name

Leaders = Mapping[str, tuple[str, ...]]
"""Place to the names that share the highest score there."""


def counted(number: int, what: str) -> str:
    """A number with its noun.

    >>> counted(1, "cache"), counted(3, "cache")
    ('1 cache', '3 caches')
    """
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def span(values: Sequence[float], places: int = 1) -> str:
    """The smallest and largest of some values; only one where they print alike.

    >>> span([0.2, 1.41]), span([0.5]), span([-0.3, 0.2])
    ('0.2 to 1.4', '0.5', '-0.3 to 0.2')
    """
    low, high = fixed(min(values), places), fixed(max(values), places)
    return low if low == high else f"{low} to {high}"


def scope_sentence(run: FinishedRun, protocol: str) -> str:
    """What the page is about."""
    parts = []
    for group in run.groups:
        tasks = ", ".join(short_name(run.task_title(cache)) for cache in group.caches)
        parts.append(f"{short_name(run.group_title(group))} on {tasks}")
    rows = span([float(cache.rows) for cache in run.caches], 0)
    return (
        f"This is about {counted(len(run.caches), 'cache')} ({'; '.join(parts)}) of {rows} rows; intervals read off "
        f"curves come from {run.suite['resamples']} resamples; where no protocol is named it is {protocol}."
    )


def headline_sentence(subject: str, duels: Sequence[tuple[str, Sequence[Duel]]]) -> str:
    """The shortest answer: whether the subject is shown to differ from each of the others anywhere, and which way."""
    parts = []
    for name, contests in duels:
        counts, total = tally(single(contests)), len(single(contests))
        better, worse = counts["better"], counts["worse"]
        if better and worse:
            parts.append(f"shown to be better than {name} in {better} and worse in {worse} of {total} comparisons")
        elif better or worse:
            word, other = ("better", "worse") if better else ("worse", "better")
            parts.append(f"shown to be {word} than {name} in {better or worse} of {total} comparisons, {other} in none")
        else:
            parts.append(f"not shown to differ from {name} in any of {total} comparisons")
    return f"By task score and by DIS, {subject} is {'; it is '.join(parts)}."


def contest_sentence(
    what: str, columns: str, subject: str, places: tuple[int, int, int], duels: Sequence[tuple[str, Sequence[Duel]]]
) -> str:
    """How often the subject comes first, and how it stands against each of the others.

    ``places`` counts where it has the highest value, where it is not shown to be worse, and of how many.
    """
    best, level, total = places
    against = "; ".join(f"against {name} it is {tally_text(single(contests))}" for name, contests in duels)
    return (
        f"By {what}, {subject} has the highest value, alone or shared, on {best} of {total} {columns}, and is not "
        f"shown to be worse than the best on {level}; {against}."
    )


def rank_words(values: Mapping[str, float], name: str) -> str:
    """The rank of a name in words.

    >>> rank_words({"a": 1.0, "b": 2.0}, "a"), rank_words({"a": 1.0, "b": 1.0}, "a")
    ('number 2 of 2', 'number 1 of 2, shared')
    """
    number, shared = rank(values, name)
    return f"number {number} of {len(values)}{', shared' if shared else ''}"


def order_part(order: Order, subject: str, what: str) -> str:
    """One order against the paper's, in words."""
    same, total = order.pairs()
    ours, paper = ({name: values[name] for name in order.shared} for values in (order.ours, order.paper))
    return (
        f"by {what}, {subject} is {rank_words(ours, subject)} (in the paper {rank_words(paper, subject)}) and {same} "
        f"of {total} pairs of signals are in the paper's order (Kendall's tau {fixed(order.tau(), 2)})"
    )


def order_sentences(groups: Sequence[GroupOrders], subject: str) -> list[str]:
    """Whether the paper's order of the signals appears on these networks, then one sentence per network and measure.

    None where the paper has no figures of the subject on these tasks.
    """
    orders = [(group, order, what) for group in groups for order, what in ((group.score, "score"), (group.dis, "DIS"))]
    comparable = [
        (group, order, what) for group, order, what in orders if order.appears(subject) != "cannot be looked for"
    ]
    if not comparable:
        return []
    appearances = {order.appears(subject) for _, order, _ in comparable}
    whole = appearances.pop() if len(appearances) == 1 else "appears in part"
    where = ", ".join(
        f"by {what} with {short_name(group.title)} it {order.appears(subject)}" for group, order, what in comparable
    )
    return [
        f"The paper's order of the signals {whole} on these networks: {where}.",
        *(f"With {short_name(group.title)}, {order_part(order, subject, what)}." for group, order, what in comparable),
    ]


def above(differences: Sequence[float]) -> int:
    """How many differences are above zero by more than rounding."""
    return sum(value > 1e-9 for value in differences)


def paper_sentence(
    what: str,
    subject: str,
    other: str,
    published: Sequence[float],
    ours: Sequence[float],
    units: tuple[str, str],
) -> str:
    """The paper's differences between the subject and another signal, and ours; empty where either is missing.

    ``units`` are what the published and what our differences are counted in.
    """
    if not published or not ours:
        return ""
    return (
        f"{what}, the paper has {subject} above {other} on {above(published)} of {counted(len(published), units[0])}, "
        f"with differences of {span(published)} points; here the value of {subject} is higher on {above(ours)} of "
        f"{counted(len(ours), units[1])}, with differences of {span(ours)} points."
    )


def spread_sentence(spreads: Sequence[Spread], what: str, parameter: str, columns: str) -> str:
    """How far the values of a grid differ, against the standard error of one number."""
    measured = [spread for spread in spreads if not math.isnan(spread.width)]
    if not measured:
        return ""
    widest = max(measured, key=lambda spread: spread.width)
    within = sum(spread.within_error for spread in measured)
    return (
        f"Between the values of {parameter}, {what} differs by at most {fixed(widest.width, 1)} points "
        f"({short_name(widest.task)}, {widest.where}; standard error of one value {fixed(widest.std_err, 1)}); the "
        f"whole spread is smaller than one standard error on {within} of {len(measured)} {columns}."
    )


def recommended_sentence(spreads: Sequence[Spread], values: Sequence[float], advice: ParameterRange) -> str:
    """Where the best value of a parameter lies, against the range that its paper advises."""
    measured = [spread for spread in spreads if spread.used]
    if not measured:
        return ""
    names = [str(number) for number in range(len(values))]
    inside = sum(
        any(advice.low <= values[int(name)] <= advice.high for name in spread.best(names)) for spread in measured
    )
    return (
        f"The paper advises values of {advice.parameter} between {advice.low:g} and {advice.high:g}: the "
        f"highest score is reached there, alone or also there, on {inside} of {counted(len(measured), 'cache')}."
    )


def change_sentence(changes: Sequence[ProtocolChange], first: str, second: str, near: str) -> str:
    """What the second protocol changes in scores and speed-ups."""
    moved = [
        (value, change.name, task)
        for change in changes
        for value, task in zip(change.scores, change.tasks, strict=True)
    ]
    paces = [value for change in changes for value in change.speed_ups]
    if not moved:
        return f"There is no score {near} under both protocols, {first} and {second}."
    value, name, task = max(moved, key=lambda change: abs(change[0]))
    average = signed(mean([score for score, *_ in moved]), 2)
    return (
        f"Under {second} instead of {first} the score {near} changes by {average} points on average over signals and "
        f"caches, at most by {signed(value, 2)} ({short_name(name)} on {short_name(task)}), and the speed-up by at "
        f"most {signed(furthest_from_zero(paces), 3)}."
    )


def flip_sentence(first: str, second: str, before: Sequence[Duel], after: Sequence[Duel]) -> str:
    """Which verdicts change with the protocol."""
    flips = [
        f"{short_name(old.other.title)}, {short_name(old.task)}, {old.where}: {old.verdict} ({first}), "
        f"{new.verdict} ({second})"
        for old, new in zip(before, after, strict=True)
        if old.verdict != new.verdict
    ]
    details = f": {'; '.join(flips)}" if flips else ""
    return f"Of the {len(before)} verdicts above, {len(flips)} change with the protocol{details}."


def hands_sentence(first: str, second: str, before: Leaders, after: Leaders) -> str:
    """Where another signal has the highest score under another protocol."""
    moved = [
        f"{short_name(task)} ({first}: {listed(before[task])}; {second}: {listed(after[task])})"
        for task in before
        if set(before[task]) != set(after[task])
    ]
    details = f": {'; '.join(moved)}" if moved else ""
    return f"Who has the highest score changes on {len(moved)} of {counted(len(before), 'cache')}{details}."


def equal_share_sentence(subject: str, other: str, rates: Sequence[RateDuels]) -> str:
    """Whether the subject makes fewer errors when both exit equally often: then both rates move together."""
    premature = [both.premature for both in rates]
    lower, counts = above([-duel.difference for duel in premature]), tally(premature)
    return (
        f"At equal exit shares, {subject} against {other}: both rates are lower on {lower} of "
        f"{counted(len(rates), 'cache')} (distinguishable: lower on {counts['better']}, higher on {counts['worse']})."
    )


def rates_sentence(subject: str, other: str, rates: Sequence[RateDuels], speed_up: str) -> str:
    """On how many caches the premature rate falls at one speed-up without the delayed one rising for it."""
    lower, claimed, trades = (
        sum(both.is_lower for both in rates),
        sum(both.is_claimed for both in rates),
        sum(both.is_trade for both in rates),
    )
    return (
        f"Near {speed_up}, {subject} against {other}: the premature rate is lower without a higher delayed rate on "
        f"{lower} of {counted(len(rates), 'cache')} (distinguishable: on {claimed}); on {trades} one rate falls as the "
        "other rises, which is another share of exits and no fewer errors."
    )


def power_sentence(subject: str, other: str, duels: Sequence[Duel], published: Sequence[float]) -> str:
    """The differences that these rows could have shown, beside the paper's, one per duel (NaN where it has none)."""
    needed = [claimable(duel.std_err, duel.tests) for duel in duels]
    smallest = [value for value in needed if not math.isnan(value)]
    if not smallest:
        return ""
    both = [
        (abs(figure), least) for figure, least in zip(published, needed, strict=True) if not math.isnan(figure + least)
    ]
    small = sum(figure < least for figure, least in both)
    comparison = f"; the paper's own difference is smaller than that on {small} of {len(both)}" if both else ""
    return (
        f"To be claimed four times in five, a true difference between {subject} and {other} would have to be "
        f"{span(smallest)} points on these caches{comparison}."
    )


def identical_sentences(run: FinishedRun, identical: Sequence[Identical]) -> list[str]:
    """Which entries are one and the same, each group of them with all the places where that holds."""
    tasks_of: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for twins in identical:
        tasks_of.setdefault(twins.members, []).append(short_name(task_with_model(run, twins.cache)))
    return [
        f"{listed([run.label(*member) for member in members])} agree in every number on {', '.join(tasks)}: there they "
        "are one signal under several names."
        for members, tasks in tasks_of.items()
    ]
