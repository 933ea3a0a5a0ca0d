"""What does a threshold chosen on clean rows do on shifted ones? The same network, task and thresholds, other rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.vocabulary import NORMAL_QUANTILE
from exitbench.reports.findings.choices import signed
from exitbench.reports.findings.evidence.answers import AnsweredQuestion, PlainTable
from exitbench.reports.findings.evidence.contested_runs import SHIFTED, ContestedRun, RunsTogether
from exitbench.reports.findings.evidence.dot_charts import Dot, DotChart, DotPanel, DotRow
from exitbench.reports.findings.evidence.estimates import interval_end
from exitbench.reports.run_data.numbers import fixed
from exitbench.reports.run_data.run_caches import CacheMetadata

SHIFT_COLUMNS = ("rows", "signal", "speed-up, clean", "speed-up, shifted", "score, clean", "score, shifted", "change")


@dataclass(frozen=True)
class ShiftedSignal:
    """A signal with one threshold on clean and on shifted rows: speed-up and score, each with its interval."""

    label: str
    speed_ups: tuple[Row, Row]
    scores: tuple[Row, Row]

    @property
    def change(self) -> float:
        """Score on shifted rows less that on clean ones."""
        return self.scores[1].value - self.scores[0].value

    @property
    def reach(self) -> float:
        """Half the 95% interval of that, as if the rows were independent, which an image and its copy are not."""
        return NORMAL_QUANTILE * math.hypot(*(row.std_err for row in self.scores))


@dataclass(frozen=True)
class ShiftedRows:
    """Clean and shifted rows of one network, with every signal that has numbers on both."""

    clean: CacheMetadata
    shifted: CacheMetadata
    speed_up: float
    signals: tuple[ShiftedSignal, ...]
    subject: str

    @property
    def title(self) -> str:
        return f"{self.shifted.name} ({self.shifted.rows:,} rows)"


def shifted_rows(contest: ContestedRun) -> Iterator[ShiftedRows]:
    """Every cache of a run that differs from an earlier one in the split only."""
    run, asked = contest.run, float(contest.run.suite["primary_speed_up"])
    at = at_speed_up(asked)
    for number, shifted in enumerate(run.caches):
        clean = next(
            (
                cache
                for cache in run.caches[:number]
                if (cache.model, cache.task) == (shifted.model, shifted.task) and cache.split != shifted.split
            ),
            None,
        )
        if clean is None:
            continue
        signals = []
        for entry in run.entries:
            pair = {
                measure: [
                    run.row(cache, contest.protocol, entry.signal, entry.parameters, measure, at)
                    for cache in (clean, shifted)
                ]
                for measure in ("speed_up", clean.measure)
            }
            known = [row for rows in pair.values() for row in rows if row is not None and not math.isnan(row.value)]
            if len(known) == 4:
                first, second, third, fourth = known
                label = run.label(entry.signal, entry.parameters)
                signals.append(ShiftedSignal(label, (first, second), (third, fourth)))
        if signals:
            subject = run.label(contest.subject.signal, contest.subject.parameters)
            yield ShiftedRows(clean, shifted, asked, tuple(signals), subject)


def shift_answer(evidence: RunsTogether) -> AnsweredQuestion | None:
    """Speed-up and score at clean thresholds, on clean and shifted rows."""
    every = [
        rows
        for contest in evidence.contests
        if contest.run.suite["target"] == SHIFTED
        for rows in shifted_rows(contest)
    ]
    if not every:
        return None
    panels = [
        DotPanel(
            rows.title,
            tuple(
                DotRow(each.label, (row_dot(each.speed_ups[0]), row_dot(each.speed_ups[1], second=True)))
                for each in rows.signals
            ),
        )
        for rows in every
    ]
    chart = DotChart(
        "shift",
        "Speed-up that a threshold chosen on clean rows has on clean and on shifted rows, with 95% intervals",
        "speed-up",
        tuple(panels),
        line=None,
        kinds=("clean rows", "shifted rows"),
    )
    note = (
        "Score: share of answers that are the last layer's, in percent, which needs no label and is no accuracy. "
        "Change: shifted less clean, with an interval as if the rows were independent, too wide where they are "
        "the same images."
    )
    return AnsweredQuestion(
        "What does a threshold chosen on clean rows do on shifted ones?",
        " ".join(shift_sentence(rows) for rows in every),
        tuple(sentence for rows in every for sentence in extremes_sentence(rows)),
        chart,
        (PlainTable(SHIFT_COLUMNS, tuple(row for rows in every for row in table_rows(rows)), note),),
    )


def row_dot(row: Row, *, second: bool = False) -> Dot:
    """A value with its interval."""
    return Dot(row.value, row.low, row.high, second=second)


def speed_text(row: Row) -> str:
    """A speed-up with its interval."""
    return f"{fixed(row.value, 2)}× [{fixed(row.low, 2)}, {fixed(row.high, 2)}]"


def score_text(row: Row) -> str:
    """A score with its interval."""
    return f"{fixed(row.value, 1)} [{fixed(row.low, 1)}, {fixed(row.high, 1)}]"


def change_text(each: ShiftedSignal) -> str:
    """The change of the score with its interval."""
    low, high = (interval_end(each.change + side * each.reach, 1) for side in (-1, 1))
    return f"{signed(each.change, 1)} [{low}, {high}]"


def table_rows(rows: ShiftedRows) -> Iterator[tuple[str, ...]]:
    """A row for each signal."""
    for each in rows.signals:
        speeds, scores = map(speed_text, each.speed_ups), map(score_text, each.scores)
        yield (rows.shifted.name, each.label, *speeds, *scores, change_text(each))


def shift_sentence(rows: ShiftedRows) -> str:
    """The subject's speed-up and score on both."""
    each = next((signal for signal in rows.signals if signal.label == rows.subject), rows.signals[0])
    return (
        f"On {rows.title} the threshold of {each.label} that was chosen for {rows.speed_up:g}× has "
        f"{speed_text(each.speed_ups[1])} (clean rows: {speed_text(each.speed_ups[0])}), and agreement with the last "
        f"layer changes by {change_text(each)} points to {fixed(each.scores[1].value, 1)}%."
    )


def extremes_sentence(rows: ShiftedRows) -> Iterator[str]:
    """Which signals keep the most and the least of their speed, and of the agreement."""

    def kept(each: ShiftedSignal) -> float:
        return each.speed_ups[1].value / each.speed_ups[0].value

    slowest, fastest = min(rows.signals, key=kept), max(rows.signals, key=kept)
    worst = min(rows.signals, key=lambda each: each.change)
    shown = sum(each.change + each.reach < 0 for each in rows.signals)
    yield (
        f"{rows.shifted.name}: {slowest.label} goes from {speed_text(slowest.speed_ups[0])} to "
        f"{speed_text(slowest.speed_ups[1])}, {fastest.label} from {speed_text(fastest.speed_ups[0])} to "
        f"{speed_text(fastest.speed_ups[1])}; agreement falls, by its interval, for {shown} of {len(rows.signals)} "
        f"signals, the most for {worst.label} ({change_text(worst)} points)."
    )
