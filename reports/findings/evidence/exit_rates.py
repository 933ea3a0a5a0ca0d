"""Which signal exits less often on wrong answers: at equal exit shares, and at one speed-up, where shares differ."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from exitbench.reports.findings.duels import Duels, tally
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable, shown_side
from exitbench.reports.findings.evidence.contested_runs import ContestedRun, RunsTogether, cache_value, dot_of
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import TasksEstimate, holm_adjusted, mean_over_tasks
from exitbench.reports.findings.rates import RateDuels, equal_share_duels, rate_duels
from exitbench.reports.findings.sentences import counted
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry

RATES_COLUMNS = ("signal", "mean difference", "about", "shown lower on", "shown higher on", "caches")

Key = tuple[str, str]
"""Signal and parameters."""


@dataclass(frozen=True)
class SignalRates:
    """A signal's exit rates less the rival's: cache by cache, and the means over tasks."""

    key: Key
    label: str
    by_cache: tuple[tuple[CacheMetadata, RateDuels], ...]
    premature: TasksEstimate
    delayed: TasksEstimate

    def cells(self) -> tuple[str, ...]:
        """The row of the table: the premature rate at equal shares."""
        counts = tally([both.premature for _, both in self.by_cache])
        shown = (str(counts["better"]), str(counts["worse"]), str(len(self.by_cache)))
        return (self.label, self.premature.text(), self.premature.about, *shown)


def signal_rates(evidence: RunsTogether, *, equal_shares: bool) -> list[SignalRates]:
    """Every signal against the first opponent, the lowest premature rate first; a cache counts in its first run.

    Rows without labels judge nobody.
    """
    labels: dict[Key, str] = {}
    by_key: dict[Key, dict[str, tuple[CacheMetadata, RateDuels]]] = {}
    for contest, rival in with_rival(evidence):
        caches = {cache.name: cache for cache in contest.run.caches if cache.target == "labels"}
        for entry in contest.run.entries:
            if entry == rival:
                continue
            key = (entry.signal, entry.parameters)
            label = contest.run.label(*key)
            labels[key] = min(labels.get(key, label), label, key=len)
            duels = Duels(contest.run, contest.protocol, entry, [rival])
            for both in (equal_share_duels if equal_shares else rate_duels)(duels, rival):
                name = both.premature.question[0]
                if name in caches and both.premature.pair is not None and both.delayed.pair is not None:
                    by_key.setdefault(key, {}).setdefault(name, (caches[name], both))
    listed = {key: tuple(by_cache.values()) for key, by_cache in by_key.items()}
    means = {
        side: holm_adjusted(
            [
                mean_over_tasks([cache_value([getattr(both, side)], cache) for cache, both in by_cache])
                for by_cache in listed.values()
            ]
        )
        for side in ("premature", "delayed")
    }
    alike = Counter(labels.values())
    rates = [
        SignalRates(
            key, labels[key] if alike[labels[key]] == 1 else f"{labels[key]} [{key[1]}]", by_cache, premature, delayed
        )
        for (key, by_cache), premature, delayed in zip(
            listed.items(), means["premature"], means["delayed"], strict=True
        )
    ]
    return sorted(
        (each for each in rates if not math.isnan(each.premature.value)), key=lambda each: each.premature.value
    )


def with_rival(evidence: RunsTogether) -> Iterator[tuple[ContestedRun, RunEntry]]:
    """The runs that have the first opponent, with its entry."""
    for contest in evidence.contests:
        rival = next((entry for entry in contest.others if entry.title == evidence.rival), None)
        if rival is not None:
            yield contest, rival


def rates_answer(evidence: RunsTogether, asked: str) -> AnsweredQuestion | None:
    """The premature rates of all signals at equal exit shares; the short answer is about the signal ``asked``.

    Without that signal it is about the lowest rate.
    """
    rates, rival = signal_rates(evidence, equal_shares=True), evidence.rival
    if not rates:
        return None
    about = next((each for each in rates if each.key[0] == asked), rates[0])
    rows = [
        DotRow(
            each.label,
            (
                *(dot_of(both.premature) for _, both in each.by_cache),
                Dot(each.premature.value, each.premature.low, each.premature.high, bool(each.premature.side), True),
            ),
        )
        for each in rates
    ]
    caption = f"Premature exiting rate less that of {rival} when both exit equal shares of the samples"
    chart = DotChart(
        "premature-rate",
        caption,
        "difference in points; filled: shown",
        (DotPanel("", tuple(rows)),),
        kinds=("a cache", "mean over tasks"),
    )
    note = (
        f"Premature rate less that of {rival}, in points, when at each layer as many samples exit as it gets right; "
        "a lower one is better. Signals of some suites only stand on fewer tasks."
    )
    return AnsweredQuestion(
        f"Does {about.label} lower the premature rate at equal exit shares, and which signal does?",
        asked_answer(about, rival),
        (*sides_sentences(rates, rival), *one_speed_sentence(evidence, about)),
        chart,
        (PlainTable(RATES_COLUMNS, tuple(each.cells() for each in rates), note),),
    )


def rates_by_classes(about: SignalRates) -> dict[int, TasksEstimate]:
    """The signal's premature rate less the rival's by the number of classes; p-values are adjusted over these."""
    numbers = sorted({len(cache.classes) for cache, _ in about.by_cache})
    groups = [[each for each in about.by_cache if len(each[0].classes) == number] for number in numbers]
    means = [mean_over_tasks([cache_value([both.premature], cache) for cache, both in group]) for group in groups]
    return dict(zip(numbers, holm_adjusted(means), strict=True))


def asked_answer(about: SignalRates, rival: str) -> str:
    """Whether the signal's rate is lower: by the number of classes, over all tasks, and on single caches."""
    by_number = rates_by_classes(about)
    lower, higher = (sum(each.side == side for each in by_number.values()) for side in (-1, 1))
    word = {
        (False, False): "Not shown",
        (True, False): "Yes",
        (False, True): "No",
        (True, True): "It depends on the classes",
    }[bool(lower), bool(higher)]
    counts = tally([both.premature for _, both in about.by_cache])
    listed = ", ".join(f"{each.text()} with {number} ({each.about})" for number, each in by_number.items())
    return (
        f"{word}: at equal exit shares, {about.label}'s premature rate less that of {rival} is, in points by the "
        f"number of classes, {listed}; {about.premature.text()} over all {about.premature.about}. On single caches "
        f"it is shown lower on {counts['better']} and higher on {counts['worse']} of {len(about.by_cache)}."
    )


def sides_sentences(rates: Sequence[SignalRates], rival: str) -> Iterator[str]:
    """Which signals are shown to have another rate than the rival in the mean."""
    sides: Mapping[int, list[str]] = {side: [] for side in (-1, 1, 0)}
    for each in rates:
        sides[each.premature.side].append(f"{each.label} ({each.premature.text()})")
    for side, words in ((-1, "lower"), (1, "higher")):
        if sides[side]:
            yield f"In the mean over tasks, shown {words} than {rival}: {', '.join(sides[side])}."
    if sides[0]:
        names = ", ".join(each.label for each in rates if each.premature.side == 0)
        yield f"Not shown to differ from {rival} in the mean: {counted(len(sides[0]), 'signal')} ({names})."


def one_speed_sentence(evidence: RunsTogether, about: SignalRates) -> Iterator[str]:
    """The same signal at one speed-up, where one rate may be bought with the other."""
    at = sorted({float(contest.run.suite["rates_speed_up"]) for contest, _ in with_rival(evidence)})
    rates = signal_rates(evidence, equal_shares=False)
    same = next((each for each in rates if each.key == about.key), None)
    if same is not None and len(at) == 1:
        yield (
            f"At one speed-up ({at[0]:g}×), where signals exit unequal shares, {about.label} less {evidence.rival} is "
            f"{same.premature.text()} points in the premature rate "
            f"({shown_side(same.premature, 'higher', 'lower')}) and {same.delayed.text()} in the delayed rate "
            f"({shown_side(same.delayed, 'higher', 'lower')}), over {same.premature.about}."
        )
