"""All tables of a run, in the order of a report: each is a view of the result files, nothing is computed again."""

from __future__ import annotations

from reports.cost_tables import cost_tables
from reports.layout import says_something
from reports.pair_tables import difference_tables, wins_tables
from reports.parameter_tables import parameter_tables
from reports.ranking_tables import aurc_tables, dis_tables
from reports.rate_tables import rate_tables
from reports.run import Run
from reports.score_tables import area_tables, backbone_tables, loss_tables, score_tables
from reports.table import TOPICS, Table


def tables_of(run: Run) -> list[Table]:
    """Every table the run has numbers for, by question, in the order of :data:`reports.table.TOPICS`."""
    tables = [
        *score_tables(run), *area_tables(run), *loss_tables(run),
        *dis_tables(run), *aurc_tables(run), *rate_tables(run),
        *parameter_tables(run), *wins_tables(run), *difference_tables(run), *backbone_tables(run), *cost_tables(run),
    ]  # fmt: skip
    order = list(TOPICS)
    return sorted((table for table in tables if says_something(table)), key=lambda table: order.index(table.topic))
