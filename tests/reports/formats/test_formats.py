"""CSV, Markdown and LaTeX hold the same cells as the table, and no name can break out of them."""

import csv
import io
import re
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from exitbench.printable import printable
from exitbench.reports.formats.csv import csv_table, safe
from exitbench.reports.formats.latex import latex_table, latex_text
from exitbench.reports.formats.markdown import markdown_table, markdown_text
from exitbench.reports.formats.records import heading
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label
from tests.support.page_runs import HOSTILE, hostile_run, main_run

NASTY = (
    *HOSTILE,
    "=cmd|' /C calc'!A0",
    "+1",
    "-2",
    "@SUM(A1)",
    "\tx",
    "a|b",
    "`code`",
    "[link](http://x)",
    "**bold**",
    "a_b_c",
    "$x^2$",
    "100% & #1 {x} ~y \\z",
    "naïve Ångström ß",
    "עברית",
    "- item",
    "1. item",
    "&lt;",
    "_under_",
    "![i](u)",
    "a\nb",
    "\\end{table}",
    "%comment",
)
TEXTS = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=30)


def nasty_table(*names: str) -> Table:
    number = Number(-1.25, "-1.2", -2.0, 0.5, "[-2.0, 0.5]")
    rows = [TableRow((label(name), Cell("-1.2", (number,), best=True, tied=True, status="ok"))) for name in names]
    columns = (TableColumn("Signal"), TableColumn(title=names[0], group=names[-1], measure="dis"))
    return Table(
        name="nasty",
        title=names[0],
        question=names[-1],
        topic="main",
        columns=columns,
        rows=tuple(rows),
        notes=tuple(names),
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[Table]:
    return tables_of(FinishedRun(main_run(tmp_path_factory))) + tables_of(FinishedRun(hostile_run(tmp_path_factory)))


def one_line(text: str) -> str:
    return " ".join(text.split())


# CSV


@pytest.mark.long
def test_csv_reads_back_as_the_same_numbers(tables: list[Table]) -> None:
    for table in tables:
        lines = list(csv.reader(io.StringIO(csv_table(table))))
        header = lines[0]
        assert all(len(line) == len(header) for line in lines)
        for at, column in enumerate(table.columns):
            position = header.index(safe(heading(column))) if heading(column) != "" else at
            for row, line in zip(table.rows, lines[1:], strict=True):
                cell = row.cells[at]
                if cell.numbers and cell.value is not None:
                    assert float(line[position]) == cell.value
                    assert line[position + 1] == ("" if cell.low is None else repr(cell.low))


def test_no_text_of_a_csv_begins_like_a_formula() -> None:
    for line in csv.reader(io.StringIO(csv_table(nasty_table(*NASTY)))):
        for field in line:
            number = re.fullmatch(r"-?[\d.]+(e-?\d+)?", field)
            assert number or not field.lstrip(" ").startswith(("=", "+", "-", "@", "\t", "\r", "\n"))


def test_a_negative_number_stays_a_number_in_a_csv() -> None:
    line = list(csv.reader(io.StringIO(csv_table(nasty_table("a")))))[1]
    assert float(line[1]) == -1.25


# Markdown


class Cells(HTMLParser):
    """The texts of all cells and items of a rendered document, and every tag in it."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")
            self.inside = True

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th"):
            self.inside = False

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.rows[-1][-1] += data


def rendered(table: Table) -> Cells:
    cells = Cells()
    cells.feed(MarkdownIt("commonmark").enable(["table", "strikethrough"]).render(markdown_table(table)))
    return cells


@pytest.mark.long
def test_markdown_renders_to_the_cells_of_the_table(tables: list[Table]) -> None:
    for table in tables:
        page = rendered(table)
        assert page.rows[0] == [one_line(heading(column)) for column in table.columns]
        for row, line in zip(table.rows, page.rows[1:], strict=True):
            shown = [one_line(f"{cell.text}{cell.mark} {cell.interval}") for cell in row.cells]
            assert [one_line(text) for text in line] == shown


def test_markdown_makes_no_markup_of_names() -> None:
    page = rendered(nasty_table(*NASTY))
    assert [row[0] for row in page.rows[1:]] == [one_line(name) for name in NASTY]
    assert page.tags <= {"h3", "p", "table", "thead", "tbody", "tr", "th", "td", "ul", "li", "strong"}


@pytest.mark.long
@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_any_text_survives_markdown(text: str) -> None:
    page = rendered(nasty_table(text))
    assert one_line(page.rows[1][0]) == printable(one_line(text))
    assert "script" not in page.tags


def test_the_best_is_bold_and_ties_are_italic_in_markdown() -> None:
    rows = tuple(TableRow((Cell("1", best=best, tied=True),)) for best in (True, False))
    lines = markdown_table(
        Table(name="t", title="t", question="q", topic="main", columns=(TableColumn("a"),), rows=rows)
    ).splitlines()
    assert "| **1** |" in lines
    assert "| *1* |" in lines


def test_markdown_escapes_only_what_it_must() -> None:
    assert markdown_text("F-PABEE, 92.1 (1.99×)") == "F-PABEE, 92.1 (1.99×)"


# LaTeX


def uncommented(text: str) -> str:
    return "\n".join(line for line in text.splitlines() if not line.startswith("%"))


def check_latex(table: Table) -> None:
    """Braces pair up, every row has its columns, no special sign is left bare, environments close."""
    text = uncommented(latex_table(table))
    depth = 0
    for sign in re.sub(r"\\[{}\\]", "", text):
        depth += (sign == "{") - (sign == "}")
        assert depth >= 0
    assert depth == 0
    body = text.split(r"\begin{tabular}")[1].split(r"\end{tabular}")[0]
    rows = [line for line in body.splitlines() if line.endswith(r"\\") and r"\multicolumn" not in line]
    assert len(rows) == len(table.rows) + 1
    for row in rows:
        assert len(re.findall(r"(?<!\\)&", row)) == len(table.columns) - 1
    for name in ("table", "tabular"):
        assert text.count(rf"\begin{{{name}}}") == text.count(rf"\end{{{name}}}") == 1
    content = re.sub(r"\\providecommand.*", "", text)
    assert not re.search(r"(?<!\\)[#%]", re.sub(r"%$", "", content, flags=re.MULTILINE))
    assert not re.search(r"(?<!\\)_", content)
    assert len(re.findall(r"(?<!\\)\$", content)) % 2 == 0
    bare = re.sub(r"\\exitbenchchar\{.\}", "", content)
    assert bare.isascii()


@pytest.mark.long
def test_latex_is_well_formed(tables: list[Table]) -> None:
    for table in (*tables, nasty_table(*NASTY)):
        check_latex(table)


@pytest.mark.long
@given(TEXTS)
@settings(max_examples=150, deadline=None)
def test_any_text_makes_well_formed_latex(text: str) -> None:
    check_latex(nasty_table(text))


def test_latex_spells_specials_and_accents() -> None:
    assert latex_text("a_b & 5% $") == r"a\_b \& 5\% \$"
    assert latex_text("ï\\") == r"\"{\i}\textbackslash{}"


@pytest.mark.process
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="needs pdflatex; the well-formedness checks always run")
def test_latex_tables_compile(tables: list[Table], tmp_path: Path) -> None:
    chosen = [table for table in tables if "cross-fit" not in table.name]
    for number, table in enumerate((*chosen, nasty_table(*NASTY))):
        (tmp_path / f"t{number}.tex").write_text(latex_table(table), encoding="utf-8")
    inputs = "\n".join(rf"\input{{t{number}}}\clearpage" for number in range(len(chosen) + 1))
    document = rf"\documentclass{{article}}\usepackage{{graphicx}}\begin{{document}}{inputs}\end{{document}}"
    (tmp_path / "all.tex").write_text(document, encoding="utf-8")
    words = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False, errors="replace")
    assert done.returncode == 0, done.stdout[-2000:]
    assert f"({len(chosen) + 1} pages" in done.stdout
