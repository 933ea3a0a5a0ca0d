"""The few tables that every run's folder holds, and the list of all tables with how each is made."""

from __future__ import annotations

from collections.abc import Sequence

from exitbench.reports.formats.markdown import markdown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.table import TOPICS, Table

MAIN_TOPICS = ("main", "loss", "promises", "dis")
"""The questions whose first table is written unasked."""


def main_tables(run: FinishedRun, tables: Sequence[Table]) -> list[Table]:
    """The first table of each main question and model, under the protocol that the model's caches are read under."""
    leading = {group.model: run.leading_protocol(group.caches) for group in run.groups}
    first: dict[tuple[str, str], Table] = {}
    for table in tables:
        protocols = {"", leading[table.model]} if table.model in leading else {"", *leading.values()}
        if table.topic in MAIN_TOPICS and table.protocol in protocols:
            first.setdefault((table.topic, table.model), table)
    return list(first.values())


def table_index(run: FinishedRun, tables: Sequence[Table]) -> str:
    """Markdown: the tables of the folder, and the names of all others by the question they answer."""
    main = main_tables(run, tables)
    lines = [
        f"# Tables of {markdown_text(str(run.suite['name']))}",
        "",
        "In this folder, as Markdown, CSV and LaTeX:",
        "",
    ]
    lines += [f"* [{markdown_text(table.title)}]({table.name}.md)" for table in main]
    lines += ["", "Every other one is made by name: `exitbench table RUN NAME --format latex|csv|md|parquet`."]
    for topic, question in TOPICS.items():
        others = [table for table in tables if table.topic == topic and table not in main]
        if others:
            lines += [
                "",
                f"## {question}",
                "",
                *(f"* `{table.name}`: {markdown_text(table.title)}" for table in others),
            ]
    return "\n".join([*lines, ""])
