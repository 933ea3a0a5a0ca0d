"""What mkdocs calls while it builds the documentation (see ``mkdocs.yml``): pages made from the code, links, a check.

Pages that say what the code says are made here and lie in no folder: one for each signal from its docstring and the
registry, the measures from the glossary, the command line from the parser, and the repository's own Markdown files.
"""

import re
from pathlib import Path
from typing import Any

from command_line_page import command_line_page
from foreign_urls import foreign_urls
from measures_page import measures_page
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from notebook_page import notebook_page
from repository_links import ROOT_PAGES, Links
from signal_pages import signal_pages

ROOT = Path(__file__).parents[2]
LINKS = Links(ROOT)
NOTE = "More"
"""The heading of pages in ``docs/`` that ``mkdocs.yml`` does not place."""


def on_config(config: MkDocsConfig) -> None:
    """Give every signal, and every page that nobody placed, its place in the navigation."""
    nav: list[Any] = config.nav or []
    by_heading = {heading: entry for item in nav if isinstance(item, dict) for heading, entry in item.items()}
    by_heading["Signals"] += [uri for uri in pages_of_signals() if uri != "signals/index.md"]
    placed = set(page_uris(nav))
    docs = Path(config.docs_dir)
    rest = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    unplaced = [uri for uri in rest if uri not in placed]
    if unplaced:
        nav.append({NOTE: unplaced})


def page_uris(nav: Any) -> list[str]:
    """Every page that a navigation names."""
    if isinstance(nav, str):
        return [nav]
    return [uri for entry in (nav.values() if isinstance(nav, dict) else nav) for uri in page_uris(entry)]


def pages_of_signals() -> dict[str, str]:
    """The pages of the signals by where they lie in the site."""
    if not _signal_pages:
        _signal_pages.update(signal_pages())
    return _signal_pages


_signal_pages: dict[str, str] = {}


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Add what is made here, and the files of the repository that pages refer to."""
    made = {
        **pages_of_signals(),
        "measures.md": measures_page(),
        "command-line.md": command_line_page(),
        "notebook.md": notebook_page(ROOT / "docs" / "notebook.ipynb"),
    }
    for source, uri in ROOT_PAGES.items():
        made[uri] = LINKS.rewritten((ROOT / source).read_text(encoding="utf-8"), source, uri)
    for uri, text in made.items():
        files.append(File.generated(config, uri, content=text))
    for path in sorted((ROOT / "docs").rglob("*.md")):
        source = path.relative_to(ROOT).as_posix()
        LINKS.rewritten(path.read_text(encoding="utf-8"), source, source.removeprefix("docs/"))
    for source, uri in sorted(LINKS.files.items()):
        files.append(File.generated(config, uri, abs_src_path=str(ROOT / source)))


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead links out of ``docs/`` to the pages that stand for their targets."""
    if page.file.generated_by:
        return markdown
    return LINKS.rewritten(markdown, f"docs/{page.file.src_uri}", page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Take the roles of docstrings away: ``:class:`Layer``` is the code it names."""
    return re.sub(r":(?:class|mod|func|meth|attr|data):(<code>)~?(?:[\w.]+\.)?(\w+</code>)", r"\1\2", html)


def on_post_build(config: MkDocsConfig) -> None:
    """End the build where a page would load something from another host."""
    foreign = foreign_urls(Path(config.site_dir))
    if foreign:
        raise PluginError("expected nothing from other hosts, found " + ", ".join(foreign[:5]))
