"""The verdict about one signal: its place in the main column, whom it beats, who beats it, and where neither shows."""

from __future__ import annotations

from exitbench.benchmarks.results.vocabulary import is_claimed
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.sentences import listed, short_name
from exitbench.reports.tables.cells import has_value, pair_cell, result_number
from exitbench.reports.tables.pairs import pair_key
from exitbench.reports.verdict.absences import why_absent
from exitbench.reports.verdict.main_column import MainColumn

Words = tuple[str | Number, ...]


def subject_sentence(column: MainColumn, subject: RunEntry) -> Words:
    """Where the subject stands among those that are compared; why it does not, where it takes no part."""
    run, name = column.run, (subject.signal, subject.parameters)
    label, near = short_name(run.label(*name)), f"Near {column.point.short}, {short_name(column.title)}"
    row = column.row(*name)
    if row is None or not has_value(row) or row.best is None:
        return (f"{near}, {label} is not compared ({why_absent(run, column.question, subject)}), {column.protocol}.",)
    every = (column.row(entry.signal, entry.parameters) for entry in run.entries)
    scores = [other.value for other in every if other is not None and other.best is not None]
    rank = 1 + sum(value > row.value for value in scores)
    return (
        f"{near}, {label} scores ",
        result_number(row),
        f" ({column.protocol}), place {rank} of {len(scores)}; ",
        *against_others(column, subject),
    )


def against_others(column: MainColumn, subject: RunEntry) -> Words:
    """Ahead of whom, behind whom, and from whom no difference can be claimed."""
    run, name = column.run, (subject.signal, subject.parameters)
    ahead: list[tuple[str, Number]] = []
    behind: list[tuple[str, Number]] = []
    level: list[str] = []
    tested = column.differences()
    for entry in run.entries:
        pair, sign = tested.get((name, (entry.signal, entry.parameters)), (None, 1))
        numbers = () if pair is None else pair_cell(pair, pair_key(pair), sign).numbers
        if not numbers:
            continue
        difference, *p_value = numbers
        other = short_name(run.label(entry.signal, entry.parameters))
        if not p_value or not is_claimed(p_value[0].value):
            level.append(other)
        else:
            (ahead if difference.value > 0 else behind).append((other, difference))
    words: list[str | Number] = []
    for verb, others in (("ahead of ", ahead), ("behind ", behind)):
        if others:
            words += ["; " if words else "", verb]
            for position, (other, difference) in enumerate(sorted(others, key=lambda pair: abs(pair[1].value))):
                words += [", " if position else "", f"{other} by ", difference, f" {difference.interval}"]
            words.append(" points")
    if level:
        words.append(f"{'; ' if words else ''}no difference from {listed(level)} can be claimed")
    return (*words, ".") if words else ("nothing was tested against it.",)
