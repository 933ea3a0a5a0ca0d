"""A static gallery of several runs, as GitHub Pages serves it: a leaderboard over all of them, and a page for each.

``index.html`` holds a table for all runs that share caches, from the same parts as a run's page; ``runs/NAME.html`` are
the runs' own pages. Nothing is loaded from another host, links are relative, and the same runs give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from exitbench.atomic_files import make_directory, write_text
from exitbench.benchmarks.measures.cost_file import read_cost
from exitbench.errors import InputError
from exitbench.output_folder import claimed
from exitbench.reports.joint_views import joint_files, joint_lines
from exitbench.reports.page.joint_view import JointView, Screen, screens_of
from exitbench.reports.page.page import APART, Page, origins, run_names
from exitbench.reports.page.run_view import RunContent, RunView, content_of
from exitbench.reports.page.templating import rendered
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.glossary import GLOSSARY
from exitbench.reports.run_data.names import slug

INDEX, RUNS, MAKER = "index.html", "runs", "site"
PLAIN = ".nojekyll"
"""Tells GitHub Pages to serve the files as they are."""


@dataclass(frozen=True)
class GalleryRun:
    """A run in the gallery: its view, and the address of its page."""

    view: RunView
    address: str


def write_site(runs: Sequence[FinishedRun], folder: Path) -> list[str]:
    """Write the gallery of some runs into ``folder``, in place of an earlier one; other files are never touched.

    Raises InputError, with nothing written, for a damaged run or a folder that is not exitbench's. Returns the lines
    for a terminal.
    """
    for run in runs:
        read_cost(run.path)
        run.files.require("results", "pairs", "samples", "curves", "histograms", "risk_coverage")
    names = [name or run.path.resolve().name for name, run in zip(run_names([r.path for r in runs]), runs, strict=True)]
    addresses = page_addresses(names)
    views = [
        RunView(number, RunContent(run, []), name) for number, (run, name) in enumerate(zip(runs, names, strict=True))
    ]
    screens = screens_of(views)
    joint = [screen for screen in screens if isinstance(screen, JointView)]
    gallery = [GalleryRun(view, address) for view, address in zip(views, addresses, strict=True)]
    texts = {INDEX: index_page(gallery, screens), PLAIN: ""} | joint_files(joint)
    with claimed(folder) as claim:
        claim.begin(MAKER, [*texts, *addresses])
        make_directory(folder / RUNS)
        for run, address in zip(runs, addresses, strict=True):
            write_text(folder / address, Page([content_of(run)]).text(home=f"../{INDEX}"))
        for name, text in reversed(texts.items()):  # the index last: a folder with one is whole
            write_text(folder / name, text)
    return joint_lines(screens)


def page_addresses(names: Sequence[str]) -> list[str]:
    """Where each run's page goes: its name in plain letters, numbered where two would be one.

    >>> page_addresses(["paper", "Paper", "mine"])
    ['runs/paper.html', 'runs/paper-2.html', 'runs/mine.html']
    """
    taken: list[str] = []
    for name in names:
        stem = slug(name)
        number = next(n for n in range(1, len(names) + 2) if numbered(stem, n) not in taken)
        taken.append(numbered(stem, number))
    return [f"{RUNS}/{stem}.html" for stem in taken]


def numbered(stem: str, number: int) -> str:
    """A name, with its number from the second on."""
    return stem if number == 1 else f"{stem}-{number}"


def index_page(gallery: Sequence[GalleryRun], screens: Sequence[Screen]) -> str:
    """The first page: each leaderboard, then every run with its address."""
    if not gallery:
        raise InputError("expected at least one run, found none")
    views = [run.view for run in gallery]
    return rendered(
        "site.html.j2",
        {
            "gallery": gallery,
            "screens": screens,
            "apart": APART,
            "glossary": GLOSSARY,
            "origin": origins(views),
        },
    )
