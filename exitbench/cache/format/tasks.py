"""The tasks every cache of this field speaks of: GLUE's class names in GLUE's order, and its measures."""

from exitbench.cache.format.manifest import Task

ENTAILMENT = ("entailment", "not_entailment")

TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task("sst2", ("negative", "positive")),
        Task("qnli", ENTAILMENT),
        Task("rte", ENTAILMENT),
        Task("mrpc", ("not_equivalent", "equivalent"), "f1"),
        Task("qqp", ("not_duplicate", "duplicate"), "f1"),
        Task("mnli", ("entailment", "neutral", "contradiction")),
    )
}
