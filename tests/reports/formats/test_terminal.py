"""A table in the terminal shows every cell's text with its marks, and takes no name for markup."""

import io

from rich.console import Console

from exitbench.reports.formats.terminal import fitting_parts, terminal_table
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.table import Cell, Table, TableColumn, TableRow, label


def printed(table: Table, width: int = 120) -> list[str]:
    """The lines that a terminal of a given width shows, without colours."""
    console = Console(file=io.StringIO(), width=width)
    console.print(terminal_table(table))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def small_table(*rows: TableRow) -> Table:
    columns = (TableColumn(title="Signal"), TableColumn(title="layer 2", group="DIS", measure="dis", better="higher"))
    return Table(name="small", title="On [red]SST-2", question="", topic="dis", columns=columns, rows=rows)


def value(text: str, **marks: bool | str) -> Cell:
    return Cell(text, (Number(float(text), text),), **marks)  # type: ignore[arg-type]


def test_the_cells_stand_in_their_columns_with_their_marks() -> None:
    lines = printed(
        small_table(
            TableRow((label("CAP"), value("81.5", best=True, tied=True, status="ok"))),
            TableRow((label("[bold]mine[/bold]"), value("80.0", tied=True, status="ok"))),
            TableRow((label("PABEE"), value("70.0", status="unmatched"))),
            TableRow((label("F-PABEE"), value("71.0", status="degenerate"))),
            TableRow((label("PCEE"), value("72.0", status="no-exit"))),
            TableRow((label("NSP"), Cell("–", status="undefined", reason="no score yet"))),
        )
    )
    words = [line.split() for line in lines]
    assert ["On", "[red]SST-2"] in words
    assert ["Signal", "layer", "2"] in words
    assert ["DIS"] in words
    assert ["CAP", "81.5*"] in words
    assert ["[bold]mine[/bold]", "80.0*"] in words
    assert ["PABEE", "70.0†"] in words
    assert ["F-PABEE", "71.0§"] in words
    assert ["PCEE", "72.0¶"] in words
    assert ["NSP", "–"] in words


def test_a_rule_sets_bounds_apart_from_signals() -> None:
    lines = printed(
        small_table(
            TableRow((label("CAP"), value("81.5"))),
            TableRow((label("NSP"), value("80.5"))),
            TableRow(cells=(label("Random"), value("50.0")), kind="bound"),
        )
    )
    position = {line.split()[0]: number for number, line in enumerate(lines) if line.strip()}
    assert position["NSP"] == position["CAP"] + 1
    assert position["Random"] == position["NSP"] + 2


def test_a_name_wider_than_the_terminal_is_folded_and_not_cut() -> None:
    name = "signal-" + "x" * 60
    lines = printed(small_table(TableRow((label(name), value("81.5")))), width=40)
    assert "".join(line.split()[0] for line in lines if "x" in line) == name


def wide_table(columns: int) -> Table:
    titles = [f"column {number:02d}" for number in range(columns)]
    cells = [value(f"{number}.25") for number in range(columns)]
    return Table(
        name="wide",
        title="Wide",
        question="",
        topic="dis",
        columns=(TableColumn(title="System"), *(TableColumn(title=title, measure="dis") for title in titles)),
        rows=(TableRow((label("DeeBERT"), *cells)),),
    )


def test_a_table_that_fits_stays_whole() -> None:
    table = wide_table(4)
    assert fitting_parts(table, 120) == [table]


def test_what_is_wider_than_the_terminal_comes_in_parts_each_with_the_names() -> None:
    parts = fitting_parts(wide_table(20), 60)
    assert [part.title for part in parts] == ["Wide", *["Wide, continued"] * (len(parts) - 1)]
    shown = [printed(part, width=60) for part in parts]
    for lines in shown:
        assert max(map(len, lines)) <= 60
        assert any(line.split()[:1] == ["DeeBERT"] for line in lines), "a name in every part"
    numbers = [word for lines in shown for line in lines if "DeeBERT" in line for word in line.split()[1:]]
    assert numbers == [f"{number}.25" for number in range(20)], "each number once, whole, in its order"
    assert not any("…" in line for lines in shown for line in lines)
