"""One run, or several side by side, as a single HTML file that needs nothing but itself.

The page is a view: every number in it was read from a result file and says from which row
(``data-key="run/file/row/column"``). The first screen is complete without scripts; what opens below it is built by
them from data that lies in the page.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from exitbench.atomic_files import make_directory, write_text
from exitbench.reports.page.chart_data import Charts
from exitbench.reports.page.explorer import Explorer
from exitbench.reports.page.joint_view import JointView, Screen, screens_of
from exitbench.reports.page.packed import packed
from exitbench.reports.page.page_room import PAGE_BYTES, PageRoom
from exitbench.reports.page.run_view import RunContent, RunView, content_of, topics_of
from exitbench.reports.page.table_data import shown_text
from exitbench.reports.page.templating import rendered
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import DECISIONS, GLOSSARY, PROTOCOLS
from exitbench.reports.run_data.numbers import Number
from exitbench.reports.sentences import listed

EXPLORER_CHARACTERS = 1_200_000
"""How much JSON the explorers of a page may hold; packed, about a third of it counts towards the page."""

DATA_MARK = "<!--data-->\n"
"""Where the data stands in the template."""
SLACK = 20_000
"""Signs less than are free, once data took more than was counted."""

APART = "What shares no cache, protocol and speed-up with the others stands by itself below."
"""What the first of several first screens says of the others."""


def write_page(run_dirs: Sequence[Path], out: Path, subject: str | None = None) -> None:
    """Write the page of one run, or of several side by side, to the file ``out``; whole or not at all."""
    Page([content_of(FinishedRun(path, subject)) for path in run_dirs]).write(out)


def run_names(run_dirs: Sequence[Path]) -> list[str]:
    """What to call each run: nothing for one alone, otherwise its folder, numbered where folders share a name."""
    if len(run_dirs) == 1:
        return [""]
    names = [Path(path).resolve().name for path in run_dirs]
    return [f"{name} ({number + 1})" if names.count(name) > 1 else name for number, name in enumerate(names)]


def origins(views: Sequence[RunView]) -> Callable[[int, Number], str]:
    """What says where a number was read, with the number of its run, which is on the number where it is of another."""

    def origin(run: int, number: Number) -> str:
        own = int(number.run) if number.run else run
        where = views[own].source.origin(number)
        return f"{own}/{where}" if where else ""

    return origin


class Page:
    """The page of one run, or of several side by side."""

    def __init__(self, contents: Sequence[RunContent]) -> None:
        names = run_names([content.run.path for content in contents])
        self.views = [
            RunView(number, content, name) for number, (content, name) in enumerate(zip(contents, names, strict=True))
        ]
        self.screens = screens_of(self.views)
        self.joint = [screen for screen in self.screens if isinstance(screen, JointView)]
        self._explorers = [Explorer(view.run) for view in self.views]
        self._charts = [Charts(view.run) for view in self.views]
        self._every: list[Screen] = [*self.views, *self.joint]

    def data(self, free: int) -> dict[str, str]:
        """What scripts read, packed: the explorers' curves, tables with their other formats, and charts.

        Of each run as much as fits into its share of the ``free`` signs of the page.
        """
        budget = EXPLORER_CHARACTERS // len(self.views)
        rooms = [PageRoom(free // len(self.views)) for _ in self.views]
        both = list(zip(self.views, rooms, strict=True))
        glossary = {key: f"{term.title}: {term.definition}" for key, term in GLOSSARY.items()}
        tables = [view.data(room) for view, room in both]
        parts: dict[str, Any] = {
            "explorer": [
                {"run": shown_text(view.name), **explorer.data(budget, room)}
                for (view, room), explorer in zip(both, self._explorers, strict=True)
            ],
            "tables": {"glossary": glossary, "runs": [*tables, *(joint.data() for joint in self.joint)]},
            "charts": [charts.data(room) for charts, room in zip(self._charts, rooms, strict=True)],
            "downloads": [
                *(view.texts(data, room) for (view, room), data in zip(both, tables, strict=True)),
                *({joint.table.table.name: dict(joint.table.texts)} for joint in self.joint),
            ],
        }
        return {name: packed(part) for name, part in parts.items()}

    def text(self, home: str = "") -> str:
        """The page as text, with a link to ``home`` where it is one of several; equal results give equal text."""
        context: Mapping[str, Any] = {
            "views": self.views,
            "screens": self.screens,
            "apart": APART,
            "title": listed(list(dict.fromkeys(str(view.run.suite["name"]) for view in self.views))),
            "topics": topics_of([table for view in self._every for table in view.tables]),
            "glossary": GLOSSARY,
            "decisions": DECISIONS,
            "protocols": PROTOCOLS,
            "origin": origins(self.views),
            "home": home,
        }
        before, mark, after = rendered("page.html.j2", context).rpartition(DATA_MARK)
        assert mark  # what names the page shows is escaped, so that none can be a mark
        free = PAGE_BYTES - len(before.encode()) - len(after.encode())
        return f"{before}{self.scripts(free)}{after}"

    def scripts(self, free: int) -> str:
        """The data as elements of the page, of at most ``free`` signs unless names alone take more."""
        room = free
        while True:
            texts = self.data(room)
            scripts = "".join(
                f'<script type="text/plain" id="data-{name}">{text}</script>\n' for name, text in texts.items()
            )
            if len(scripts) <= free or room <= 0:
                return scripts
            # Counted in another order than they stand in, parts that resemble each other seemed smaller than they are.
            room -= len(scripts) - free + SLACK

    def write(self, out: Path) -> None:
        """Write the page to the file ``out``; whole or not at all."""
        text = self.text()
        make_directory(out.parent)
        write_text(out, text)
