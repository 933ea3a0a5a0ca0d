"""A real small run with other numbers put into its results and pairs, for the tests of the findings."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pyarrow as pa

from exitbench.benchmarks.results.files import write_table
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.reports.findings.findings import findings
from exitbench.reports.run_data.finished_run import FinishedRun

Change = Callable[[pd.DataFrame, pd.DataFrame], None]
"""Changes numbers of the results and of the pairs in place."""
Mask = Callable[[pd.DataFrame], pd.Series]
"""The rows of either file that stay."""


def unchanged(results: pd.DataFrame, pairs: pd.DataFrame) -> None:
    """Leave every number as it is."""


def altered(run_dir: Path, folder: Path, change: Change = unchanged, keep: Mask | None = None) -> FinishedRun:
    """A copy of a run with other numbers, or with fewer rows."""
    folder.mkdir()
    shutil.copy(run_dir / "run.json", folder)
    frames = {name: pd.read_parquet(run_dir / f"{name}.parquet") for name in ("results", "pairs")}
    change(frames["results"], frames["pairs"])
    for name, frame in frames.items():
        kept = frame if keep is None else frame[keep(frame)]
        # A missing number is NaN in these files, anything else that is missing is null.
        columns = [
            pa.array(kept[field.name].to_numpy(), field.type, from_pandas=field.type != pa.float64())
            for field in SCHEMAS[name]
        ]
        write_table(folder / f"{name}.parquet", pa.table(columns, schema=SCHEMAS[name]))
    return FinishedRun(folder)


def page_of(run: FinishedRun) -> str:
    """The findings of a run that has some."""
    text = findings(run)
    assert text is not None
    return text


def opening(page: str) -> str:
    """The first paragraph of a page of findings."""
    return page.split("\n# Findings\n")[1].split("\nDifferences are in points", maxsplit=1)[0]
