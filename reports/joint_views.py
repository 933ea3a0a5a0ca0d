"""The page of several runs, with the tables in which they are compared, and what the terminal says of them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from exitbench.atomic_files import write_text
from exitbench.output_folder import claimed
from exitbench.reports.formats.plain_text import table_lines
from exitbench.reports.page.joint_view import JointView, Screen
from exitbench.reports.page.page import Page
from exitbench.reports.page.run_view import content_of
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_summary import WIDTH, mark_words, spoken, wrapped
from exitbench.reports.tables.table_parts import BEST_NOTE, MARK_NOTES

PAGE, MAKER = "report.html", "page"
SIGNS = {BEST_NOTE, *MARK_NOTES.values()}
"""Notes that a terminal has shorter words for."""


def write_joint_views(runs: Sequence[FinishedRun], folder: Path) -> list[str]:
    """Write the page of some runs, and a file in each format of every table that several of them share.

    What the folder held of this before is replaced; other files stay. Returns the lines for a terminal: each joint
    table, then each verdict.
    """
    page = Page([content_of(run) for run in runs])
    files = {PAGE: page.text()} | joint_files(page.joint)
    with claimed(folder) as claim:
        claim.begin(MAKER, list(files))
        for name, text in reversed(files.items()):  # the page last
            write_text(folder / name, text)
    return joint_lines(page.screens)


def joint_files(views: Sequence[JointView]) -> dict[str, str]:
    """The joint tables in every format, by the name of the file; numbered where there are several."""
    return {
        f"joint{'' if len(views) == 1 else f'-{number}'}.{ending}": text
        for number, view in enumerate(views, start=1)
        for ending, text in view.table.texts.items()
    }


def joint_lines(screens: Sequence[Screen], width: int = WIDTH) -> list[str]:
    """Each joint table and its notes, then all verdicts, each with its runs where there are several."""
    lines: list[str] = []
    for view in screens:
        if isinstance(view, JointView):
            notes = ["; ".join(mark_words(view.lead)), *(note for note in view.lead_notes if note not in SIGNS)]
            lines += [*table_lines(view.lead, width), *(line for note in notes for line in wrapped(note, width)), ""]
    for view in screens:
        title = f"Verdict, {view.name}: " if len(screens) > 1 else "Verdict: "
        lines += wrapped(title + spoken(view.sentences), width)
    return lines
