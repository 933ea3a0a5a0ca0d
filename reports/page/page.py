"""One run, or several side by side, as a single HTML file that needs nothing but itself.

The page is a view: every number in it was read from a result file and says from which row
(``data-key="run/file/row/column"``). The first screen is complete without scripts; what opens below it is built by
them from data that lies in the page.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from exitbench.atomic_files import make_directory, write_text
from exitbench.reports.page.chart_data import chart_data
from exitbench.reports.page.explorer import explorer_data
from exitbench.reports.page.packed import packed
from exitbench.reports.page.run_view import RunContent, RunView, cell_parts, content_of, topics_of
from exitbench.reports.page.table_data import cell_hint, shown_text
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DECISIONS, GLOSSARY, PROTOCOLS
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.tables.table import TableRow

EXPLORER_CHARACTERS = 1_200_000
"""How much JSON the explorers of a page may hold; packed, about a third of it counts towards the page."""

LONGEST_WORD = 26
"""A word that is longer is broken where it must; others never are."""


def to_repeat(arguments: Iterable[str]) -> str:
    """The command without what changes no result, so that the same results make the same page.

    >>> to_repeat(["exitbench", "run", "my suite.toml", "--jobs", "4", "--seed", "1", "--out=here", "--force"])
    "exitbench run 'my suite.toml' --seed 1"
    """
    words, kept = iter(arguments), []
    for word in words:
        if word in {"--jobs", "--out"}:
            next(words, None)
        elif word not in {"--force", "--debug"} and not word.startswith(("--jobs=", "--out=")):
            kept.append(word)
    return shlex.join(kept)


def has_long_word(text: str) -> bool:
    """Whether a text must be broken inside a word, or it would not fit a column."""
    return any(len(word) > LONGEST_WORD for word in text.split())


def by_kind(rows: Sequence[TableRow]) -> list[tuple[str, list[TableRow]]]:
    """Rows of one kind after another, so that bounds never stand among signals."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    return [(kind, [row for row in rows if row.kind == kind]) for kind in kinds]


def visible(value: Any) -> Any:
    """What the page shows of a value: a name's control and bidirectional signs as escapes, our own markup as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return shown_text(value)


def write_page(run_dirs: Sequence[Path], out: Path, subject: str | None = None) -> None:
    """Write the page of one run, or of several side by side, to the file ``out``; whole or not at all."""
    Page([content_of(FinishedRun(path, subject)) for path in run_dirs]).write(out)


def run_names(run_dirs: Sequence[Path]) -> list[str]:
    """What to call each run: nothing for one alone, otherwise its folder, numbered where folders share a name."""
    if len(run_dirs) == 1:
        return [""]
    names = [Path(path).resolve().name for path in run_dirs]
    return [f"{name} ({number + 1})" if names.count(name) > 1 else name for number, name in enumerate(names)]


class Page:
    """The page of one run, or of several side by side."""

    def __init__(self, contents: Sequence[RunContent]) -> None:
        names = run_names([content.run.path for content in contents])
        self.views = [
            RunView(number, content, name) for number, (content, name) in enumerate(zip(contents, names, strict=True))
        ]

    @property
    def data(self) -> dict[str, str]:
        """What scripts read, packed: the explorers' curves, all tables with their other formats, and charts."""
        budget = EXPLORER_CHARACTERS // len(self.views)
        glossary = {key: f"{term.title}: {term.definition}" for key, term in GLOSSARY.items()}
        parts: dict[str, Any] = {
            "explorer": [{"run": shown_text(view.name), **explorer_data(view.run, budget)} for view in self.views],
            "tables": {"glossary": glossary, "runs": [view.data() for view in self.views]},
            "downloads": [view.texts for view in self.views],
            "charts": [chart_data(view.run) for view in self.views],
        }
        return {name: packed(part) for name, part in parts.items()}

    def text(self) -> str:
        """The page as text; equal results give equal text."""
        environment = Environment(
            loader=PackageLoader("exitbench.reports.page"),
            autoescape=True,
            finalize=visible,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        loader = environment.loader
        assert loader is not None

        def source(name: str) -> Markup:
            return Markup(loader.get_source(environment, name)[0])  # noqa: S704 - our own sheet and scripts

        def origin(run: int, number: Number) -> str:
            where = self.views[run].source.origin(number)
            return f"{run}/{where}" if where else ""

        context: Mapping[str, Any] = {
            "views": self.views,
            "title": " and ".join(dict.fromkeys(str(view.run.suite["name"]) for view in self.views)),
            "topics": topics_of(self.views),
            "glossary": GLOSSARY,
            "decisions": DECISIONS,
            "protocols": PROTOCOLS,
            "data": self.data,
            "source": source,
            "origin": origin,
            "parts": cell_parts,
            "hint_of": cell_hint,
        }
        environment.tests["long"] = has_long_word
        environment.filters |= {"to_repeat": to_repeat, "groupby_kind": by_kind}
        return environment.get_template("page.html.j2").render(context)

    def write(self, out: Path) -> None:
        """Write the page to the file ``out``; whole or not at all."""
        text = self.text()
        make_directory(out.parent)
        write_text(out, text)
