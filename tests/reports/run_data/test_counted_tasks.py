"""Tasks are counted as tasks, and networks as networks."""

from exitbench.reports.run_data.run_caches import CacheMetadata, counted_tasks


def cache(task: str, name: str) -> CacheMetadata:
    return CacheMetadata(name, "m", task, "dev", "accuracy", 3, ("a", "b"), rows=9, table_layers=(1,))


def test_networks_of_one_task_are_not_several_tasks() -> None:
    assert counted_tasks([cache("sst2", "a")]) == "1 task"
    assert counted_tasks([cache("sst2", "a"), cache("rte", "b")]) == "2 tasks"
    assert counted_tasks([cache("sst2", "a"), cache("sst2", "b"), cache("rte", "c")]) == "3 networks on 2 tasks"
    assert counted_tasks([cache("sst2", "a"), cache("sst2", "b")]) == "2 networks on 1 task"
