"""The first screen of several runs that share caches: one verdict, one picture and one table for all of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from exitbench.benchmarks.replay.operating_points import ROUNDING
from exitbench.benchmarks.statistics.power import claimable
from exitbench.reports.figures.style import colour
from exitbench.reports.formats.all_formats import FormattedTable, formatted
from exitbench.reports.page.forest import Forest, plotted
from exitbench.reports.page.run_view import RunView
from exitbench.reports.page.table_data import table_data
from exitbench.reports.run_data.glossary import PROTOCOLS
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.sentences import NAMED, listed
from exitbench.reports.several_runs.common_ground import CommonGround, common_ground, fields_of
from exitbench.reports.several_runs.joint_runs import JointRuns
from exitbench.reports.several_runs.joint_table import JointContest, first_rows, joint_table
from exitbench.reports.several_runs.joint_verdict import joint_sentences, subject_of
from exitbench.reports.tables.table import Table
from exitbench.reports.verdict.alert import Alert
from exitbench.reports.verdict.verdict import Sentence

MOST_SIGNALS, FEW_CACHES = 16, 3
"""As many signals and single tasks as the table of a first screen has room for; the whole one is among the details."""


class JointView:
    """What the page shows of several runs together; numbers of one run are named by the run's place on the page."""

    def __init__(self, views: Sequence[RunView], ground: CommonGround, number: int) -> None:
        self.views, self.number = list(views), number
        self.joint = JointRuns(
            [view.run for view in views], [view.name for view in views], ground, [view.number for view in views]
        )
        subject = subject_of(self.joint, [view.run.subject for view in views])
        self.contest = JointContest(self.joint, subject)

    @property
    def name(self) -> str:
        return listed(self.joint.names)

    @property
    def prefix(self) -> str:
        return f"joint{self.number}-"

    @cached_property
    def sentences(self) -> list[Sentence]:
        return joint_sentences(self.contest)

    @property
    def errors(self) -> list[Alert]:
        """What went wrong in one of the runs."""
        return [alert for view in self.views for alert in view.errors]

    @property
    def care(self) -> list[tuple[str, str]]:
        """Where each run's alerts stand, and how many there are."""
        return [alert for view in self.views for alert in view.care]

    @cached_property
    def table(self) -> FormattedTable:
        """The whole table."""
        return formatted(joint_table(self.contest))

    @property
    def tables(self) -> list[Table]:
        """What opens on demand."""
        return [self.table.table]

    @cached_property
    def lead(self) -> Table:
        """As much of the table as the first screen has room for."""
        return first_rows(joint_table(self.contest, FEW_CACHES), MOST_SIGNALS)

    @property
    def lead_notes(self) -> list[str]:
        """The notes of the table that the verdict does not say anyway."""
        said = {"".join(map(str, sentence)) for sentence in self.sentences if len(sentence) == 1}
        return [note for note in self.lead.notes if note not in said]

    @cached_property
    def forest(self) -> Forest | None:
        """Every contender less the reference, or the subject less each other, with intervals."""
        contest, column = self.contest, self.contest.column
        if contest.reference is None or len(column.contenders) < 2:
            return None
        rows: list[tuple[str, str, Sequence[Number]]] = []
        for index, contender in enumerate(column.contenders):
            if index != contest.reference:
                ends = (contest.reference, index) if contest.subject else (index, contest.reference)
                difference, adjusted = contest.difference(*ends)
                if difference.low is not None:
                    rows.append((self.joint.label(contender), colour(contender.entry.signal), (difference, adjusted)))
        rows.sort(key=lambda row: row[2][0].value, reverse=contest.subject is None)
        more = len(rows) - MOST_SIGNALS
        errors = [test.std_err for test in column.tests.values() if test.std_err > ROUNDING]
        smallest = claimable(float(np.median(errors))) if errors else None
        name = self.joint.label(column.contenders[contest.reference])
        what = f"{name} less each other" if contest.subject else f"Each less {name}"
        ground = self.joint.ground
        title = f"{what}, score near {ground.point.short}: {contest.title}, {ground.protocol}"
        cut = f"{more} more are in the whole table." if more > 0 else ""
        return plotted(rows[:MOST_SIGNALS], title, smallest, cut) if rows else None

    @property
    def network_line(self) -> str:
        """The networks of the first runs; the others' are among the details of their own."""
        lines = dict.fromkeys(view.network_line for view in self.views)
        if len(lines) == 1:
            return next(iter(lines))
        shown = [f"{view.name}: {view.network_line}" for view in self.views[:NAMED]]
        more = len(self.views) - len(shown)
        return " ".join([*shown, *([f"And {more} more runs."] if more else [])])

    @property
    def protocol_line(self) -> str:
        protocol = self.joint.ground.protocol
        how = PROTOCOLS.get(protocol, "")
        return f"{protocol}: {how} Intervals of scores are each run's own, those of differences 95%."

    def data(self) -> dict[str, Any]:
        """What scripts build the whole table from, as if it were of one more run."""
        table = self.table.table
        return {
            "name": "",
            "joint": True,
            "leading": [self.joint.ground.protocol],
            "signals": [],
            "tables": [table_data(table, self.origin) | {"topic": table.topic}],
            "tasks": [],
        }

    def origin(self, number: Number) -> str:
        """Where a number was read, with the run's place on the page; empty for what no file holds."""
        if not number.run:
            return ""
        view = next(view for view in self.views if str(view.number) == number.run)
        return f"{number.run}/{view.source.origin(number)}"


Screen = RunView | JointView


def screens_of(views: Sequence[RunView]) -> list[Screen]:
    """A first screen for all runs that can be compared with each other, and for each that can not one of its own."""
    if len(views) == 1:
        return list(views)
    screens: list[Screen] = []
    for field in fields_of([view.run for view in views]):
        members = [views[number] for number in field]
        ground = common_ground([view.run for view in members]) if len(members) > 1 else None
        screens.append(members[0] if ground is None else JointView(members, ground, len(screens)))
    return screens
