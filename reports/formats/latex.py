r"""A table as LaTeX that compiles with nothing but ``graphicx``, under pdfLaTeX as under LuaLaTeX.

Letters with the common accents become commands; any other sign outside ASCII is written by ``\exitbenchchar``, which
prints the sign itself where the engine knows Unicode and its code point where it does not, so no name can stop a
compilation.
"""

from __future__ import annotations

import unicodedata

from exitbench.printable import printable
from exitbench.reports.tables.table import Cell, Table, TableRow

PREAMBLE = r"""% Needs \usepackage{graphicx}.
\providecommand{\exitbenchchar}[2]{\ifdefined\Umathchar #1\else{\footnotesize U+#2}\fi}
"""

SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "%": r"\%",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': "''",
    "×": r"$\times$",
    "–": "--",
    "—": "---",
    "−": r"$-$",
    "∞": r"$\infty$",
    "·": r"$\cdot$",
    "†": r"$\dagger$",
    "‡": r"$\ddagger$",
    "§": r"\S{}",
    "¶": r"\P{}",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "±": r"$\pm$",
    "’": "'",
    "‘": "`",
    "“": "``",
    "”": "''",
    "…": r"\ldots{}",
    "ß": r"\ss{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "α": r"$\alpha$",
    "τ": r"$\tau$",
    "\u00a0": "~",
}
ACCENTS = {
    "\u0300": r"\`",
    "\u0301": r"\'",
    "\u0302": r"\^",
    "\u0303": r"\~",
    "\u0304": r"\=",
    "\u0306": r"\u",
    "\u0307": r"\.",
    "\u0308": r"\"",
    "\u030a": r"\r",
    "\u030b": r"\H",
    "\u030c": r"\v",
    "\u0327": r"\c",
}


def latex_text(text: str) -> str:
    r"""A text that LaTeX prints as it is, on one line.

    >>> latex_text("50% of $x_1"), latex_text("é"), latex_text("😀")
    ('50\\% of \\$x\\_1', "\\'{e}", '\\exitbenchchar{😀}{1F600}')
    """
    return printable(" ".join(text.split())).translate(WRITTEN)


def latex_sign(sign: str) -> str:
    """One sign as LaTeX."""
    if sign in SIGNS:
        return SIGNS[sign]
    if " " <= sign <= "~":
        return sign
    parts = unicodedata.normalize("NFD", sign)
    if len(parts) == 2 and parts[0].isascii() and parts[1] in ACCENTS:
        base = {"i": r"\i", "j": r"\j"}.get(parts[0], parts[0]) if parts[1] != "\u0327" else parts[0]
        return f"{ACCENTS[parts[1]]}{{{base}}}"
    return rf"\exitbenchchar{{{sign}}}{{{ord(sign):04X}}}"


class WrittenSigns(dict[int, str]):
    """What stands for each sign, by its code point; found out when the sign is met first."""

    def __missing__(self, code: int) -> str:
        self[code] = latex_sign(chr(code))
        return self[code]


WRITTEN = WrittenSigns()
"""As a table for ``str.translate``: a page has half a million signs."""


def latex_cell(cell: Cell) -> str:
    """A cell: the best bold, those tied with it underlined, the interval small behind it."""
    text = latex_text(cell.text)
    if cell.best:
        text = rf"\textbf{{{text}}}"
    elif cell.tied:
        text = rf"\underline{{{text}}}"
    # Brackets at the start of a cell would be read as an option of the line break before it.
    interval = rf" {{\scriptsize {latex_text(cell.interval)}}}" if cell.interval else ""
    return f"{{{text}}}{latex_text(cell.mark)}{interval}"


def latex_row(row: TableRow) -> str:
    """One row."""
    return " & ".join(latex_cell(cell) for cell in row.cells) + r" \\"


def latex_table(table: Table) -> str:
    """The table as a float as wide as the text at most, with its notes below it and a label to refer to."""
    layout = "".join("l" if column.is_label else "r" for column in table.columns)
    lines = [r"\begin{table}", r"\centering", rf"\caption{{{latex_text(table.title)}}}", rf"\label{{tab:{table.name}}}"]
    lines += [r"\sbox0{%", rf"\begin{{tabular}}{{{layout}}}", r"\hline"]
    if table.is_grouped:
        spans = [rf"\multicolumn{{{span}}}{{c}}{{{latex_text(group)}}}" for group, span in table.groups]
        lines.append(" & ".join(spans) + r" \\")
    lines.append(" & ".join(f"{{{latex_text(column.title)}}}" for column in table.columns) + r" \\")
    kind = ""
    for row in table.rows:
        if row.kind != kind:
            lines.append(r"\hline")
            kind = row.kind
        lines.append(latex_row(row))
    lines += [r"\hline", r"\end{tabular}}%"]
    lines.append(r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi")
    if table.notes:
        lines += ["", r"\smallskip", r"\parbox{\linewidth}{\footnotesize"]
        lines += [latex_text(note) + r"\par" for note in table.notes]
        lines.append("}")
    return PREAMBLE + "\n".join([*lines, r"\end{table}", ""])
