"""What ``exitbench check`` prints, for people and for CI services; every function takes all outcomes at once."""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exitbench.benchmarks.baselines.baseline_table import Move
    from exitbench.benchmarks.baselines.check_suite import Checked

HEADINGS = ("what", "was", "is", "difference", "tolerance", "beyond its standard error")
ANNOTATIONS = 10
"""GitHub shows no more annotations of one kind for a step."""


def terminal(outcomes: Sequence[Checked]) -> str:
    """Moves under the place they belong to, in columns."""
    return "\n".join(itertools.chain.from_iterable(_plain(one) for one in outcomes))


def markdown(outcomes: Sequence[Checked]) -> str:
    """A heading and, where something moved, a table for every suite."""
    lines = []
    for one in outcomes:
        lines += [f"### exitbench check: {one.suite}", "", verdict(one), ""]
        lines += [f"- {escaped(problem)}" for problem in one.problems]
        if one.moves and not one.is_new:
            lines += ["| where | " + " | ".join(HEADINGS) + " |", "|---|---|--:|--:|--:|--:|---|"]
            for move in one.moves:
                lines.append("| " + " | ".join(map(escaped, (" · ".join(move.place), *cells(move)))) + " |")
            lines.append("")
    return "\n".join(lines).rstrip()


def github(outcomes: Sequence[Checked]) -> str:
    """The plain table, folded, and an annotation for each problem and the first moves."""
    messages = []
    for one in outcomes:
        messages += [(one.suite, problem) for problem in one.problems]
        messages += [(one.suite, sentence(move)) for move in one.moves if not one.is_new]
    lines = [f"::error title={_property(f'exitbench check {suite}')}::{_data(text)}" for suite, text in messages]
    if len(lines) > ANNOTATIONS:
        rest = len(lines) - ANNOTATIONS + 1
        lines = [*lines[: ANNOTATIONS - 1], f"::error title=exitbench check::{rest} more; the log has the whole table"]
    # A line of the table cannot pass for a command: those begin with "::", at the start of a line.
    return "\n".join(["::group::exitbench check", terminal(outcomes), "::endgroup::", *lines])


def junit(outcomes: Sequence[Checked]) -> str:
    """One test case for each cache, protocol and signal, and one for each problem."""
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', "<testsuites>"]
    for one in outcomes:
        places: dict[tuple[str, str, str], list[Move]] = {place: [] for place in _places(one)}
        for move in one.moves if not one.is_new else ():
            places.setdefault(move.place, []).append(move)
        failed = sum(map(bool, places.values()))
        counts = f'tests="{len(places) + len(one.problems)}" failures="{failed}" errors="{len(one.problems)}"'
        lines.append(f'<testsuite name="{html.escape(one.suite)}" {counts}>')
        for problem in one.problems:
            text = html.escape(problem)
            lines.append(f'<testcase classname="{html.escape(one.suite)}" name="compute"><error message="{text}"/>')
            lines.append("</testcase>")
        for (cache, protocol, signal), moved in places.items():
            case = f'<testcase classname="{html.escape(f"{cache}.{protocol}")}" name="{html.escape(signal)}"'
            if moved:
                text = html.escape("\n".join(sentence(move) for move in moved))
                lines.append(f'{case}><failure message="{len(moved)} moved">{text}</failure></testcase>')
            else:
                lines.append(f"{case}/>")
        lines.append("</testsuite>")
    return "\n".join([*lines, "</testsuites>"])


FORMATS: dict[str, Callable[[Sequence[Checked]], str]] = {
    "terminal": terminal,
    "github": github,
    "markdown": markdown,
    "junit": junit,
}


def verdict(one: Checked) -> str:
    """One sentence on a suite."""
    if one.problems:
        return f"{one.suite}: could not be computed"
    if one.is_new:
        return f"{one.suite}: {len(one.current)} numbers, no baseline yet"
    if one.moves:
        return f"{one.suite}: {len(one.moves)} of {len(one.baseline or ())} numbers moved"
    return f"{one.suite}: all {len(one.baseline or ())} numbers as in the baseline"


def cells(move: Move) -> tuple[str, ...]:
    """One move in the columns of :data:`HEADINGS`."""
    difference = move.kind if move.kind != "moved" else _signed(move.difference)
    return move.question, _number(move.was), _number(move.now), difference, f"{move.tolerance:g}", _beyond(move)


def sentence(move: Move) -> str:
    """One move as a line of text."""
    what, was, now, difference, tolerance, beyond = cells(move)
    told = "" if beyond == "-" else f", beyond its standard error: {beyond}"
    moved = f"was {was}, is {now} (difference {difference}, tolerance {tolerance}{told})"
    return f"{' · '.join(move.place)}: {what}: {moved}"


def escaped(text: str) -> str:
    """Text for a cell of a Markdown table; grids contain the sign that separates cells."""
    return text.replace("|", "\\|")


def _plain(one: Checked) -> list[str]:
    lines = [verdict(one), *(f"  {problem}" for problem in one.problems)]
    if not one.moves or one.is_new:
        return lines
    table = [HEADINGS, *(cells(move) for move in one.moves)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]

    def line(row: Sequence[str]) -> str:
        numbers = "  ".join(cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True))
        return f"  {row[0].ljust(widths[0])}  {numbers}  {row[-1]}"

    lines += ["", line(HEADINGS)]
    for place, group in itertools.groupby(zip(one.moves, table[1:], strict=True), key=lambda pair: pair[0].place):
        lines += [" · ".join(place), *(line(row) for _, row in group)]
    return [*lines, ""]


def _places(one: Checked) -> list[tuple[str, str, str]]:
    from exitbench.benchmarks.baselines.baseline_table import Move

    keys = one.current if one.baseline is None else one.baseline
    return list(dict.fromkeys(Move(key, None, None, 0.0).place for key in keys))


def _number(value: float | None) -> str:
    return "-" if value is None else "undefined" if math.isnan(value) else f"{value:.7g}"


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.3g}"


def _beyond(move: Move) -> str:
    return "-" if move.beyond_error is None else f"{'yes' if move.beyond_error else 'no'} ({move.std_err:.2g})"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
