"""The main run and its tables, which most tests of this folder look at."""

import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Table
from tests.support.page_runs import main_run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    return FinishedRun(main_run(tmp_path_factory))


@pytest.fixture(scope="session")
def tables(run: FinishedRun) -> list[Table]:
    return tables_of(run)
