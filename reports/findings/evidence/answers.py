"""The parts of the evidence page: a question with its short answer, further sentences, a picture and a table."""

from __future__ import annotations

from dataclasses import dataclass

from exitbench.reports.findings.evidence.dot_charts import DotChart
from exitbench.reports.findings.evidence.estimates import TasksEstimate


@dataclass(frozen=True)
class PlainTable:
    """A small table of texts: its heading, and rows as long as that; ``note`` says how to read it."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""


@dataclass(frozen=True)
class AnsweredQuestion:
    """A question, the short answer, what else is to be said, the picture, and the numbers as a table."""

    question: str
    short: str
    sentences: tuple[str, ...]
    chart: DotChart
    tables: tuple[PlainTable, ...] = ()


def shown_side(estimate: TasksEstimate, above: str, below: str) -> str:
    """What a mean is shown to be: above zero, below, or neither."""
    return {1: above, -1: below, 0: "not shown to differ"}[estimate.side]
