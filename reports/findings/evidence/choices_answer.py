"""What do parameters, thresholds of each layer, calibration and the protocol change?"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Sequence

from exitbench.reports.findings.choices import Spread
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable
from exitbench.reports.findings.evidence.choice_effects import (
    ChoiceEffect,
    choice_effects,
    grid_spreads,
    varied_names,
)
from exitbench.reports.findings.evidence.contested_runs import RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import TasksEstimate, holm_adjusted
from exitbench.reports.findings.sentences import counted, span
from exitbench.reports.run_data.numbers import fixed

CHOICES_COLUMNS = ("choice", "mean change", "about", "on single caches", "shown, of tested", "caches")


def choices_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """What parameters, thresholds and protocols change."""
    effects = choice_effects(evidence.contests)
    means = holm_adjusted([effect.estimate for effect in effects])
    spreads = [spread for _, spread in grid_spreads(evidence)]
    if not effects:
        return None
    rows = [
        DotRow(
            effect.choice,
            (
                *(change.dot for change in effect.changes),
                Dot(each.value, each.low, each.high, bool(each.side), second=True),
            ),
        )
        for effect, each in zip(effects, means, strict=True)
    ]
    chart = DotChart(
        "choices",
        "What each choice changes in the task score near the suites' speed-ups",
        "change of the score in points; filled: shown",
        (DotPanel("", tuple(rows)),),
        kinds=("a cache (of thresholds: and signal)", "mean over tasks"),
    )
    note = "Changes of the task score in points. Shown: after Holm's adjustment within the column of its cache."
    table = PlainTable(
        CHOICES_COLUMNS, tuple(choice_row(effect, each) for effect, each in zip(effects, means, strict=True)), note
    )
    return AnsweredQuestion(
        "What do alpha, centring, per-layer thresholds, calibration and the protocol change?",
        choices_short(evidence.subject, varied_names(evidence.contests), effects, means, spreads),
        tuple(spread_sentences(evidence.subject, varied_names(evidence.contests), spreads)),
        chart,
        (table,),
    )


def choice_row(effect: ChoiceEffect, estimate: TasksEstimate) -> tuple[str, ...]:
    """A row of the table."""
    values = [change.dot.value for change in effect.changes]
    tested = [change.dot for change in effect.changes if not math.isnan(change.dot.low)]
    shown = f"{sum(dot.claimed for dot in tested)} of {len(tested)}" if tested else "–"
    caches = len({change.cache.name for change in effect.changes})
    return (effect.choice, estimate.text(2), estimate.about, span(values), shown, str(caches))


def choices_short(
    subject: str,
    varied: str,
    effects: Sequence[ChoiceEffect],
    means: Sequence[TasksEstimate],
    spreads: Sequence[Spread],
) -> str:
    """How many choices are shown to change the mean, the largest changes either way, and what the grid's values do."""
    named = [(each, f"{effect.choice} {each.text(2)}") for effect, each in zip(effects, means, strict=True)]
    named.sort(key=lambda item: item[0].value)
    shown = sum(each.side != 0 for each in means)
    text = (
        f"{shown or 'None'} of {counted(len(effects), 'choice')} {'is' if shown < 2 else 'are'} shown to change the "
        f"mean score over tasks; in points, {named[0][1]} is lowest and {named[-1][1]} highest"
    )
    if spreads:
        within = sum(spread.within_error for spread in spreads)
        text += (
            f"; the values of {varied} of {subject} lie within the standard error of one score on {within} of "
            f"{counted(len(spreads), 'cache')}"
        )
    return f"{text}."


def spread_sentences(subject: str, varied: str, spreads: Sequence[Spread]) -> Iterator[str]:
    """How far apart the scores of a grid's values are, beside the standard error of one of them."""
    if not spreads:
        return
    widths = [spread.width for spread in spreads]
    errors = [spread.std_err for spread in spreads if not math.isnan(spread.std_err)]
    within = sum(spread.within_error for spread in spreads)
    yield (
        f"Between the values of {varied}, the score of {subject} differs by "
        f"{fixed(statistics.median(widths), 1)} points in the median over "
        f"{counted(len(spreads), 'cache')} and by at most {fixed(max(widths), 1)} (largest less smallest, which chance "
        f"alone makes positive); on {within} it is less than the standard error of one score, "
        f"{fixed(statistics.median(errors), 1)} in the median."
    )
