"""All tables of a run, in the order of a report: each is a view of the result files, nothing is computed again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.across.across_tables import across_tables
from exitbench.reports.tables.cost import cost_tables
from exitbench.reports.tables.exit_rates import rate_tables
from exitbench.reports.tables.learning import learning_tables
from exitbench.reports.tables.pairs import difference_tables, wins_tables
from exitbench.reports.tables.parameters import parameter_tables
from exitbench.reports.tables.per_task import task_name, task_tables
from exitbench.reports.tables.promises import promise_tables
from exitbench.reports.tables.published_forms import form_tables
from exitbench.reports.tables.ranking import aurc_tables, calibration_tables, dis_tables
from exitbench.reports.tables.shared_threshold import shared_threshold_tables
from exitbench.reports.tables.systems.systems_table import systems_tables
from exitbench.reports.tables.table import TOPICS, Table
from exitbench.reports.tables.table_parts import says_something
from exitbench.reports.tables.task_scores import area_tables, backbone_tables, loss_tables, score_tables

MAKERS: Mapping[Callable[[FinishedRun], list[Table]], tuple[str, ...]] = {
    score_tables: ("main", "speed"),
    area_tables: ("area",),
    loss_tables: ("loss",),
    promise_tables: ("promises",),
    dis_tables: ("dis",),
    form_tables: ("published",),
    aurc_tables: ("excess",),
    calibration_tables: ("calibration",),
    rate_tables: ("rates",),
    parameter_tables: ("parameters",),
    shared_threshold_tables: ("shared",),
    learning_tables: ("learning",),
    wins_tables: ("wins",),
    difference_tables: ("differences",),
    across_tables: ("ranks", "normalised", "improvement", "practical", "variance"),
    backbone_tables: ("backbones",),
    systems_tables: ("systems",),
    cost_tables: ("cost",),
}
"""What makes the tables of a report, in its order, and the words that the names of its tables begin with."""


def tables_of(run: FinishedRun) -> list[Table]:
    """Every table the run has numbers for, by question, in the order of ``TOPICS``."""
    return by_topic(table for make in MAKERS for table in make(run))


def tables_called(run: FinishedRun, name: str) -> list[Table]:
    """The tables, also of single tasks, that a name or its first words can mean; all where no table is called so.

    Of a run over hundreds of caches all tables take a minute, and one of them a few seconds.
    """
    of_task = [cache for cache in run.caches if task_name(cache) == name]
    if of_task:
        return task_tables(run, of_task)
    word = name.partition("-")[0]
    tables = by_topic(table for make, words in MAKERS.items() if word in words for table in make(run))
    if any(f"{table.name}-".startswith(f"{name}-") for table in tables):
        return tables
    return [*tables_of(run), *task_tables(run, run.caches)]


def by_topic(tables: Iterable[Table]) -> list[Table]:
    """The tables that say something, in the order of ``TOPICS``."""
    order = list(TOPICS)
    return sorted((table for table in tables if says_something(table)), key=lambda table: order.index(table.topic))
