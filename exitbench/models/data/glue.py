"""Where the texts and labels of the known tasks stand: six GLUE tasks, in TSV files and on the hub.

Class order and metric are the cache room's own table, GLUE's order, so that class 1 means the same here
as everywhere else.
"""

from __future__ import annotations

from dataclasses import dataclass

from exitbench.cache import TASKS, Task
from exitbench.errors import InputError, did_you_mean


@dataclass(frozen=True)
class TaskFormat:
    """The folder and columns of one task's TSV files, and the columns of the hub's dataset."""

    name: str
    folder: str
    text: str
    text_pair: str | None
    label: str
    hub_text: str
    hub_text_pair: str | None
    dev_file: str = "dev.tsv"
    hub_dev: str = "validation"

    @property
    def classes(self) -> tuple[str, ...]:
        return TASKS[self.name].classes


FORMATS: dict[str, TaskFormat] = {
    task.name: task
    for task in (
        TaskFormat("sst2", "SST-2", "sentence", None, "label", "sentence", None),
        TaskFormat("mrpc", "MRPC", "#1 String", "#2 String", "Quality", "sentence1", "sentence2"),
        TaskFormat("qqp", "QQP", "question1", "question2", "is_duplicate", "question1", "question2"),
        TaskFormat("qnli", "QNLI", "question", "sentence", "label", "question", "sentence"),
        TaskFormat("rte", "RTE", "sentence1", "sentence2", "label", "sentence1", "sentence2"),
        TaskFormat(
            "mnli",
            "MNLI",
            "sentence1",
            "sentence2",
            "gold_label",
            "premise",
            "hypothesis",
            dev_file="dev_matched.tsv",
            hub_dev="validation_matched",
        ),
    )
}


def require_format(name: str) -> TaskFormat:
    """The format of a task known by name, or an error that says how other data is read."""
    if name not in FORMATS:
        raise InputError(
            f"expected a task out of {', '.join(FORMATS)}, or --text and --label columns for other data, "
            f"found {name!r}.{did_you_mean(name, FORMATS)}"
        )
    return FORMATS[name]


def task_card(name: str, classes: tuple[str, ...]) -> Task:
    """Name, classes and metric: F1 of class 1 where GLUE measures that, accuracy for all other data."""
    glue_task = TASKS.get(name)
    return glue_task if glue_task is not None and glue_task.classes == classes else Task(name, classes)
