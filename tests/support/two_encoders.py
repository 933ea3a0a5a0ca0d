"""A run of five seeds on seven tasks with a second encoder put in: three seeds on three of the tasks."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from exitbench.benchmarks.results.files import write_table
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.places import FIXTURES
from exitbench.reports.run_data.finished_run import FinishedRun

KEPT = FIXTURES / "findings" / "seeds"
FIRST, SECOND = "minilm-l6", "other-12"
TASKS, SEEDS = ("mnli", "rte", "mrpc"), (1, 2, 3)
AHEAD = 4.0
"""Points of DIS that the second encoder adds to every difference in which the subject comes second."""


def of_first_encoder(folder: Path) -> FinishedRun:
    """A copy of the kept run that has the networks of the first encoder alone."""
    folder.mkdir()
    record = json.loads((KEPT / "run.json").read_text(encoding="utf-8"))
    record["caches"] = {name: cache for name, cache in record["caches"].items() if cache["model"] == FIRST}
    record["suite"]["caches"] = [name for name in record["suite"]["caches"] if name in record["caches"]]
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    for name in ("results", "pairs", "across"):
        table = pq.read_table(KEPT / f"{name}.parquet")
        write_table(folder / f"{name}.parquet", table.filter(pc.field("model") == FIRST))
    return FinishedRun(folder)


def with_second_encoder(folder: Path) -> FinishedRun:
    """A copy of that run in which some networks of the first encoder stand again as those of a second one.

    Their score differences are as before, those of DIS that have the subject in them are moved by :data:`AHEAD`.
    """
    kept = of_first_encoder(folder.with_name(f"{folder.name}-first")).path
    folder.mkdir()
    record = json.loads((kept / "run.json").read_text(encoding="utf-8"))
    names = {f"{FIRST}-{task}-s{seed}-dev": f"{SECOND}-{task}-s{seed}-dev" for task in TASKS for seed in SEEDS}
    for before, after in names.items():
        own = record["caches"][before]
        again = {"model": SECOND, "layers": 12, "network": f"again-{own['network']}", "manifest_sha256": "0" * 64}
        record["caches"][after] = {**own, **again}
        record["suite"]["caches"].append(after)
    (folder / "run.json").write_text(json.dumps(record), encoding="utf-8")
    for name in ("results", "pairs"):
        frame = pd.read_parquet(kept / f"{name}.parquet")
        again = frame[frame.cache.isin(list(names))].copy()
        again["cache"] = again.cache.map(names)
        again["model"] = SECOND
        if name == "pairs":
            sides = [(again[f"signal_{side}"] == "cap") & (again.measure == "dis") for side in "ab"]
            again["difference"] += AHEAD * (sides[0].astype(float) - sides[1].astype(float))
        both = pd.concat([frame, again])
        columns = [
            pa.array(both[field.name].to_numpy(), field.type, from_pandas=field.type != pa.float64())
            for field in SCHEMAS[name]
        ]
        write_table(folder / f"{name}.parquet", pa.table(columns, schema=SCHEMAS[name]))
    (folder / "across.parquet").write_bytes((kept / "across.parquet").read_bytes())
    return FinishedRun(folder)


def task_means(frame: pd.DataFrame, tasks: dict[str, str]) -> dict[str, float]:
    """The mean over a task's networks of the mean over a network's rows of a table."""
    by_cache = frame.groupby("cache").difference.mean()
    return by_cache.groupby(by_cache.index.map(tasks)).mean().to_dict()


def student_interval(values: list[float]) -> tuple[float, float]:
    """Student's 95% interval of the mean of independent values."""
    from scipy import stats

    low, high = stats.t.interval(0.95, len(values) - 1, np.mean(values), stats.sem(values))
    return float(low), float(high)
