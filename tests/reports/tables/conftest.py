"""The main run and its tables, which most tests of this folder look at."""

from pathlib import Path

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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Who looks at the main run is in the tier ``long``: the first of them waits until it is computed."""
    for item in items:
        here = item.path.parent == Path(__file__).parent
        if here and isinstance(item, pytest.Function) and "run" in item.fixturenames:
            item.add_marker(pytest.mark.long)
