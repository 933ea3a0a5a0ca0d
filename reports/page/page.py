"""One run, or several side by side, as a single HTML file that needs nothing but itself.

The page is a view: every number in it was read from a result file and says from which row
(``data-key="run/file/row/column"``). Without scripts it is complete but for the explorer.
"""

from __future__ import annotations

import base64
import json
import shlex
import zlib
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from exitbench.atomic_files import make_directory, write_text
from exitbench.printable import printable
from exitbench.reports.page.explorer import explorer_data
from exitbench.reports.page.run_view import RunContent, RunView, cell_hint, cell_parts, content_of, topics_of
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DECISIONS, GLOSSARY
from exitbench.reports.run_data.names import slug
from exitbench.reports.run_data.numbers import Number

EXPLORER_CHARACTERS = 1_200_000
"""How much JSON the explorers of a page may hold; packed, about a third of it counts towards the page."""


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


def packed(data: Any) -> str:
    """Data as compressed JSON in base64: a fifth of the size, and no sign in it can end a script element."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return base64.b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")


def visible(value: Any) -> Any:
    """What the page shows of a value: a name's control and bidirectional signs as escapes, our own markup as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return "\n".join(map(printable, value.split("\n")))


def write_page(run_dirs: Sequence[Path], out: Path) -> None:
    """Write the page of one run, or of several side by side, to the file ``out``; whole or not at all."""
    Page([content_of(FinishedRun(path)) for path in run_dirs]).write(out)


def run_names(run_dirs: Sequence[Path]) -> list[str]:
    """What to call each run: nothing for one alone, otherwise its folder, numbered where folders share a name."""
    if len(run_dirs) == 1:
        return [""]
    names = [Path(path).resolve().name for path in run_dirs]
    return [f"{name} ({number + 1})" if names.count(name) > 1 else name for number, name in enumerate(names)]


class Page:
    """The page of one run, or of several side by side; figures are the last thing it looks for."""

    def __init__(self, contents: Sequence[RunContent]) -> None:
        names = run_names([content.run.path for content in contents])
        self.views = [
            RunView(number, content, name) for number, (content, name) in enumerate(zip(contents, names, strict=True))
        ]

    def prepare(self) -> None:
        """Make everything that needs no figure, so that figures can be drawn meanwhile."""
        self._data  # noqa: B018 - kept once it was asked for

    @cached_property
    def _data(self) -> dict[str, str]:
        """What scripts read, packed: the explorers' curves and the other formats of all tables."""
        tables = [table for view in self.views for table in (*view.tables, *view.task_tables)]
        budget = EXPLORER_CHARACTERS // len(self.views)
        explorers = [{"run": view.name, **explorer_data(view.run, budget)} for view in self.views]
        return {"explorer": packed(explorers), "downloads": packed({table.id: dict(table.texts) for table in tables})}

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
            **self._data,
            "source": source,
            "origin": origin,
            "parts": cell_parts,
            "hint_of": cell_hint,
            "slug": slug,
        }
        environment.filters["to_repeat"] = to_repeat
        return environment.get_template("page.html.j2").render(context)

    def write(self, out: Path) -> None:
        """Write the page to the file ``out``; whole or not at all."""
        text = self.text()
        make_directory(out.parent)
        write_text(out, text)
