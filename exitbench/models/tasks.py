"""The classification tasks that are known by name: columns, class order and metric of six GLUE tasks.

Class order is GLUE's own, so that class 1 means the same here as everywhere else: F1 is that of class 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from exitbench.errors import InputError, did_you_mean


@dataclass(frozen=True)
class TaskFormat:
    """Where one task's texts and labels stand, in its TSV files and in the hub's dataset."""

    name: str
    folder: str
    text: str
    text_pair: str | None
    label: str
    classes: tuple[str, ...]
    hub_text: str
    hub_text_pair: str | None
    metric: Literal["accuracy", "f1"] = "accuracy"
    dev_file: str = "dev.tsv"
    hub_dev: str = "validation"


ENTAILMENT = ("entailment", "not_entailment")

TASKS: dict[str, TaskFormat] = {
    task.name: task
    for task in (
        TaskFormat("sst2", "SST-2", "sentence", None, "label", ("negative", "positive"), "sentence", None),
        TaskFormat(
            "mrpc",
            "MRPC",
            "#1 String",
            "#2 String",
            "Quality",
            ("not_equivalent", "equivalent"),
            "sentence1",
            "sentence2",
            metric="f1",
        ),
        TaskFormat(
            "qqp",
            "QQP",
            "question1",
            "question2",
            "is_duplicate",
            ("not_duplicate", "duplicate"),
            "question1",
            "question2",
            metric="f1",
        ),
        TaskFormat("qnli", "QNLI", "question", "sentence", "label", ENTAILMENT, "question", "sentence"),
        TaskFormat("rte", "RTE", "sentence1", "sentence2", "label", ENTAILMENT, "sentence1", "sentence2"),
        TaskFormat(
            "mnli",
            "MNLI",
            "sentence1",
            "sentence2",
            "gold_label",
            ("entailment", "neutral", "contradiction"),
            "premise",
            "hypothesis",
            dev_file="dev_matched.tsv",
            hub_dev="validation_matched",
        ),
    )
}


def require_task(name: str) -> TaskFormat:
    """The format of a task known by name, or an error that says how other data is read."""
    if name not in TASKS:
        raise InputError(
            f"expected a task out of {', '.join(TASKS)}, or --text and --label columns for other data, "
            f"found {name!r}.{did_you_mean(name, TASKS)}"
        )
    return TASKS[name]


def metric_of(name: str) -> Literal["accuracy", "f1"]:
    """The task's metric: F1 of class 1 for MRPC and QQP, accuracy for the others and for unknown data."""
    return TASKS[name].metric if name in TASKS else "accuracy"
