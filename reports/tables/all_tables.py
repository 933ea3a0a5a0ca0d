"""All tables of a run, in the order of a report: each is a view of the result files, nothing is computed again."""

from __future__ import annotations

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.across.across_tables import across_tables
from exitbench.reports.tables.cost import cost_tables
from exitbench.reports.tables.exit_rates import rate_tables
from exitbench.reports.tables.learning import learning_tables
from exitbench.reports.tables.pairs import difference_tables, wins_tables
from exitbench.reports.tables.parameters import parameter_tables
from exitbench.reports.tables.promises import promise_tables
from exitbench.reports.tables.published_forms import form_tables
from exitbench.reports.tables.ranking import aurc_tables, calibration_tables, dis_tables
from exitbench.reports.tables.shared_threshold import shared_threshold_tables
from exitbench.reports.tables.systems.systems_table import systems_tables
from exitbench.reports.tables.table import TOPICS, Table
from exitbench.reports.tables.table_parts import says_something
from exitbench.reports.tables.task_scores import area_tables, backbone_tables, loss_tables, score_tables


def tables_of(run: FinishedRun) -> list[Table]:
    """Every table the run has numbers for, by question, in the order of ``TOPICS``."""
    tables = [
        *score_tables(run),
        *area_tables(run),
        *loss_tables(run),
        *promise_tables(run),
        *dis_tables(run),
        *form_tables(run),
        *aurc_tables(run),
        *calibration_tables(run),
        *rate_tables(run),
        *parameter_tables(run),
        *shared_threshold_tables(run),
        *learning_tables(run),
        *wins_tables(run),
        *difference_tables(run),
        *across_tables(run),
        *backbone_tables(run),
        *systems_tables(run),
        *cost_tables(run),
    ]
    order = list(TOPICS)
    return sorted((table for table in tables if says_something(table)), key=lambda table: order.index(table.topic))
