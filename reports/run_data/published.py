"""The paper's figures, read from ``fixtures/published`` and shown beside measured ones, never mixed into them."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import lru_cache

from exitbench.places import PUBLISHED
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_entry import RunEntry

RANGES, FORMS = "parameter_ranges.csv", "forms.csv"
BERT, ALBERT, DIS = "glue_test_bert_base.csv", "glue_test_albert_base.csv", "dis_bert_base.csv"
WHAT = {
    BERT: "published, BERT-base, GLUE test",
    ALBERT: "published, ALBERT-base, GLUE test",
    DIS: "published, BERT-base, dev",
}
"""What the files hold, for the label of a row."""


@dataclass(frozen=True)
class PublishedFigure:
    """One published figure and where it stands: ``line`` counts the file's lines from 1, the header included."""

    file: str
    line: int
    method: str
    task: str
    value: float
    speed_up: float | None = None
    layer: int | None = None
    metric: str = ""


@lru_cache
def figures(file: str) -> tuple[PublishedFigure, ...]:
    """All figures of one file; none where the fixtures are not on this machine."""
    path = PUBLISHED / file
    if not path.is_file():
        return ()
    figures_read = []
    with path.open(encoding="utf-8", newline="") as lines:
        for line, row in enumerate(csv.DictReader(lines), start=2):
            speed = row.get("speedup") or row.get("mean_speedup")
            figures_read.append(
                PublishedFigure(
                    file=file,
                    line=line,
                    method=row["method"],
                    task=row["task"],
                    value=float(row.get("score") or row["dis"]),
                    speed_up=float(speed) if speed else None,
                    layer=int(row["layer"]) if row.get("layer") else None,
                    metric=row.get("metric", ""),
                )
            )
    return tuple(figures_read)


@dataclass(frozen=True)
class ParameterRange:
    """The range that a signal's paper advises for one of its parameters, ends included."""

    parameter: str
    low: float
    high: float


def published_range(method: str, parameter: str) -> ParameterRange | None:
    """The range that the paper advises; None where it advises none, or the fixtures are not on this machine."""
    path = PUBLISHED / RANGES
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as lines:
        for row in csv.DictReader(lines):
            if (row["method"], row["parameter"]) == (method, parameter):
                return ParameterRange(parameter, float(row["low"]), float(row["high"]))
    return None


@dataclass(frozen=True)
class PublishedForm:
    """The form of a signal that a method's published figures fit, where its text and its code differ, and why."""

    method: str
    parameter: str
    value: str
    basis: str

    @property
    def text(self) -> str:
        return f"{self.parameter}={self.value}"

    def is_of(self, entry: RunEntry) -> bool:
        """Whether an entry of a run has this form."""
        return entry.title == self.method and entry.settings.get(self.parameter) == self.value


def published_form(method: str) -> PublishedForm | None:
    """The form that a method's published figures should be compared with; None where it has only one."""
    path = PUBLISHED / FORMS
    if not path.is_file():
        return None
    with path.open(encoding="utf-8", newline="") as lines:
        forms = [PublishedForm(**row) for row in csv.DictReader(lines)]
    return next((form for form in forms if form.method == method), None)


def counterparts(run: FinishedRun) -> dict[str, RunEntry]:
    """The entry that stands for each published method: the only one of its title, or the one of the published form.

    Where the method was published in one form only, it is the entry that sets fewest parameters to something else.
    """
    entries: dict[str, RunEntry] = {}
    for title in dict.fromkeys(entry.title for entry in run.entries):
        named = [entry for entry in run.entries if entry.title == title]
        form = published_form(title)
        if len(named) > 1 and form is not None:
            named = [entry for entry in named if form.is_of(entry)]
        elif len(named) > 1:
            fewest = min(len(entry.written) for entry in named)
            named = [entry for entry in named if len(entry.written) == fewest]
        if len(named) == 1:
            entries[title] = named[0]
    return entries


def score_file(model: str) -> str:
    """The published main table to stand beside a model's: ALBERT's beside ALBERT, BERT's beside any other."""
    return ALBERT if "albert" in model.lower() else BERT


def backbone_of(file: str) -> str:
    """What a file calls the network without early exits."""
    return "ALBERT-base" if file == ALBERT else "BERT-base"


def published_score(file: str, method: str, task: str) -> PublishedFigure | None:
    """One figure of a main table."""
    return next((figure for figure in figures(file) if figure.method == method and figure.task == task), None)


def published_dis(method: str, task: str, layer: int) -> PublishedFigure | None:
    """One figure of the DIS table."""
    return next(
        (figure for figure in figures(DIS) if (figure.method, figure.task, figure.layer) == (method, task, layer)), None
    )
