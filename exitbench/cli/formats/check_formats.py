"""What ``exitbench check`` prints, for people and for CI services; every function takes all outcomes at once."""

from __future__ import annotations

import itertools
import math
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from exitbench.cli.terminal import column_lines
from exitbench.printable import printable

if TYPE_CHECKING:
    from exitbench.benchmarks.baselines.baseline_table import Move
    from exitbench.benchmarks.baselines.check_suite import Checked

HEADINGS = ("what", "was", "is", "difference", "tolerance", "beyond its standard error")
NUMBERS = range(1, 5)
"""The columns of numbers among them."""

ANNOTATIONS = 10
"""GitHub shows no more annotations of one kind for a step."""


def terminal(outcomes: Sequence[Checked]) -> str:
    """Moves below the cache, protocol and signal they belong to, in columns."""
    return "\n".join(itertools.chain.from_iterable(map(terminal_lines, outcomes)))


def markdown(outcomes: Sequence[Checked]) -> str:
    """A heading and, where something moved, a table for every suite."""
    lines = []
    for outcome in outcomes:
        lines += [f"### exitbench check: {printable(outcome.suite)}", "", outcome_sentence(outcome), ""]
        lines += [f"- {escape_cell(problem)}" for problem in outcome.problems]
        if outcome.moves and not outcome.is_new:
            lines += ["| where | " + " | ".join(HEADINGS) + " |", "|---|---|--:|--:|--:|--:|---|"]
            for move in outcome.moves:
                lines.append("| " + " | ".join(map(escape_cell, (" · ".join(move.entry), *move_cells(move)))) + " |")
            lines.append("")
    return "\n".join(lines).rstrip()


def github(outcomes: Sequence[Checked]) -> str:
    """The plain table, folded, and an annotation for each problem and the first moves."""
    messages = []
    for outcome in outcomes:
        messages += [(outcome.suite, problem) for problem in outcome.problems]
        messages += [(outcome.suite, move_sentence(move)) for move in outcome.moves if not outcome.is_new]
    lines = [
        f"::error title={escape_property(f'exitbench check {suite}')}::{escape_data(text)}" for suite, text in messages
    ]
    if len(lines) > ANNOTATIONS:
        rest = len(lines) - ANNOTATIONS + 1
        lines = [*lines[: ANNOTATIONS - 1], f"::error title=exitbench check::{rest} more; the log has the whole table"]
    # A line of the table cannot pass for a command: those begin with "::", at the start of a line.
    return "\n".join(["::group::exitbench check", terminal(outcomes), "::endgroup::", *lines])


def junit(outcomes: Sequence[Checked]) -> str:
    """One test case for each cache, protocol and signal, and one for each problem."""
    root = ET.Element("testsuites")
    for outcome in outcomes:
        moves_of: dict[tuple[str, str, str], list[Move]] = {entry: [] for entry in pinned_places(outcome)}
        for move in outcome.moves if not outcome.is_new else ():
            moves_of.setdefault(move.entry, []).append(move)
        suite = ET.SubElement(root, "testsuite", name=printable(outcome.suite))
        suite.set("tests", str(len(moves_of) + len(outcome.problems)))
        suite.set("failures", str(sum(map(bool, moves_of.values()))))
        suite.set("errors", str(len(outcome.problems)))
        for problem in outcome.problems:
            case = ET.SubElement(suite, "testcase", classname=printable(outcome.suite), name="compute")
            ET.SubElement(case, "error", message=printable(problem))
        for (cache, protocol, signal), moves in moves_of.items():
            case = ET.SubElement(suite, "testcase", classname=printable(f"{cache}.{protocol}"), name=printable(signal))
            if moves:
                failure = ET.SubElement(case, "failure", message=f"{len(moves)} moved")
                failure.text = "\n".join(printable(move_sentence(move)) for move in moves)
    ET.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{ET.tostring(root, encoding="unicode")}'


FORMATS: dict[str, Callable[[Sequence[Checked]], str]] = {
    "terminal": terminal,
    "github": github,
    "markdown": markdown,
    "junit": junit,
}


def outcome_sentence(outcome: Checked) -> str:
    """One sentence on a suite."""
    suite = printable(outcome.suite)
    if outcome.problems:
        return f"{suite}: could not be computed"
    if outcome.is_new:
        return f"{suite}: {len(outcome.current)} numbers, no baseline yet"
    if outcome.moves:
        return f"{suite}: {len(outcome.moves)} of {len(outcome.baseline or ())} numbers moved"
    return f"{suite}: all {len(outcome.baseline or ())} numbers as in the baseline"


def move_cells(move: Move) -> tuple[str, ...]:
    """One move in the columns of :data:`HEADINGS`."""
    difference = move.kind if move.kind != "moved" else _signed(move.difference)
    return move.question, _number(move.was), _number(move.now), difference, f"{move.tolerance:g}", _beyond(move)


def move_sentence(move: Move) -> str:
    """One move as a line of text."""
    question, was, now, difference, tolerance, beyond = move_cells(move)
    error = "" if beyond == "-" else f", beyond its standard error: {beyond}"
    moved = f"was {was}, is {now} (difference {difference}, tolerance {tolerance}{error})"
    return f"{' · '.join(move.entry)}: {question}: {moved}"


def terminal_lines(outcome: Checked) -> list[str]:
    """One suite for a reader at a terminal."""
    lines = [outcome_sentence(outcome), *(f"  {printable(problem)}" for problem in outcome.problems)]
    if not outcome.moves or outcome.is_new:
        return lines
    headings, *rows = column_lines(HEADINGS, map(move_cells, outcome.moves), NUMBERS)
    lines += ["", f"  {headings}"]
    for entry, group in itertools.groupby(zip(outcome.moves, rows, strict=True), key=lambda pair: pair[0].entry):
        lines += [printable(" · ".join(entry)), *(f"  {row}" for _, row in group)]
    return [*lines, ""]


def pinned_places(outcome: Checked) -> list[tuple[str, str, str]]:
    """The cache, protocol and signal of every number that is compared, each once."""
    from exitbench.benchmarks.baselines.baseline_table import Move

    keys = outcome.current if outcome.baseline is None else outcome.baseline
    return list(dict.fromkeys(Move(key, None, None, 0.0).entry for key in keys))


def escape_cell(text: str) -> str:
    """Text for a cell of a Markdown table; grids contain the sign that separates cells."""
    return printable(text).replace("|", "\\|")


def escape_data(text: str) -> str:
    """Text for the message of a GitHub command."""
    parts = text.replace("%", "%25").replace("\r", "%0D").split("\n")
    return "%0A".join(map(printable, parts))


def escape_property(text: str) -> str:
    """Text for a property of a GitHub command."""
    return escape_data(text).replace(":", "%3A").replace(",", "%2C")


def _number(value: float | None) -> str:
    return "-" if value is None else "undefined" if math.isnan(value) else f"{value:.7g}"


def _signed(value: float) -> str:
    return "-" if math.isnan(value) else f"{value:+.3g}"


def _beyond(move: Move) -> str:
    return "-" if move.beyond_error is None else f"{'yes' if move.beyond_error else 'no'} ({move.std_err:.2g})"
