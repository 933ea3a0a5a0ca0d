"""Of hundreds of caches, lists name a few and count the rest."""

from __future__ import annotations

import pytest

from exitbench.reports import run_summary
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.verdict.alert import MOST_PLACES, few
from exitbench.reports.verdict.learning import learning_lines
from tests.support.table_runs import learned_run


def test_a_list_of_places_is_whole_or_ends_in_how_many_there_are_more() -> None:
    places = [f"task {number}" for number in range(MOST_PLACES + 7)]
    assert few(places[:MOST_PLACES]) == places[:MOST_PLACES] and few([]) == []
    assert few(places) == [*places[:MOST_PLACES], "and 7 more"]


@pytest.mark.long
def test_the_terminal_has_the_first_lines_on_learning_and_says_how_many_more_there_are(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = FinishedRun(learned_run(tmp_path_factory))
    lines = learning_lines(run)
    assert len(lines) >= 2 and run_summary.few_learned(run) == lines
    monkeypatch.setattr(run_summary, "MOST_LEARNED", 1)
    first, rest = run_summary.few_learned(run)
    assert first == lines[0] and rest.startswith(f"{len(lines) - 1} more such lines: `exitbench table")
