"""A table that is asked for by name is made without most others, and is the one among all."""

from __future__ import annotations

from pathlib import Path

import pytest

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import MAKERS, tables_called, tables_of
from exitbench.reports.tables.per_task import task_tables
from tests.support.page_runs import main_run
from tests.support.table_runs import learned_run

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=(main_run, learned_run))
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> FinishedRun:
    path: Path = request.param(tmp_path_factory)
    return FinishedRun(path)


def test_what_makes_tables_knows_how_their_names_begin(run: FinishedRun) -> None:
    for make, words in MAKERS.items():
        for table in make(run):
            assert table.name.partition("-")[0] in words, table.name
    every = [word for words in MAKERS.values() for word in words]
    assert len(set(every)) == len(every) and "task" not in every


def test_a_name_and_its_first_words_have_the_tables_that_a_search_of_all_finds(run: FinishedRun) -> None:
    every = [*tables_of(run), *task_tables(run)]
    for wanted in every:
        words = wanted.name.split("-")
        for count in range(1, len(words) + 1):
            name = "-".join(words[:count])
            expected = [table.whole() for table in every if f"{table.name}-".startswith(f"{name}-")]
            called = [table.whole() for table in tables_called(run, name) if f"{table.name}-".startswith(f"{name}-")]
            assert called == expected, name
        assert len(tables_called(run, wanted.name)) < len(every) / 2, wanted.name
    assert len(tables_called(run, "no-such")) == len(every)
