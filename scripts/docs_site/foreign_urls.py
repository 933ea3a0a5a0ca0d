"""What a built site would load from another host: scripts, styles, fonts, pictures. A link may lead anywhere."""

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

LOADING = {
    "script": ("src",),
    "img": ("src", "srcset"),
    "source": ("src", "srcset"),
    "iframe": ("src",),
    "video": ("src", "poster"),
    "audio": ("src",),
    "embed": ("src",),
    "object": ("data",),
    "input": ("src",),
    "image": ("href", "xlink:href"),
    "use": ("href", "xlink:href"),
}
"""Attributes that make a browser load something, by element; of ``link`` it depends on ``rel``."""

KEPT_LINKS = {"canonical", "next", "prev", "alternate", "author", "license", "help"}
"""Relations of a ``link`` that load nothing."""

FOREIGN = re.compile(r"\s*(?:https?:)?//", re.IGNORECASE)
IN_STYLE = re.compile(r"""(?:url\(\s*["']?|@import\s+["'])\s*((?:https?:)?//[^"')\s]+)""", re.IGNORECASE)


class _Loads(HTMLParser):
    """Collects the foreign addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.foreign: list[str] = []
        self.in_style = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.in_style = tag == "style"
        names = LOADING.get(tag, ())
        if tag == "link" and not KEPT_LINKS & set(given.get("rel", "").split()):
            names = ("href",)
        self.foreign += [given[name].strip() for name in names if FOREIGN.match(given.get(name, ""))]
        self.foreign += IN_STYLE.findall(given.get("style", ""))

    def handle_data(self, data: str) -> None:
        if self.in_style:
            self.foreign += IN_STYLE.findall(data)

    def handle_endtag(self, tag: str) -> None:
        self.in_style = False


def foreign_in_html(text: str) -> list[str]:
    """Addresses on other hosts that a page loads by itself."""
    parser = _Loads()
    parser.feed(text)
    parser.close()
    return parser.foreign


def foreign_in_css(text: str) -> list[str]:
    """Addresses on other hosts that a style sheet loads."""
    return IN_STYLE.findall(text)


def foreign_urls(site: Path) -> list[str]:
    """``page: address`` for all that the pages and style sheets of a built site load from other hosts."""
    return list(_foreign_urls(site))


def _foreign_urls(site: Path) -> Iterator[str]:
    readers = {".html": foreign_in_html, ".svg": foreign_in_html, ".css": foreign_in_css}
    for path in sorted(site.rglob("*")):
        if path.suffix in readers:
            for address in readers[path.suffix](path.read_text(encoding="utf-8")):
                yield f"{path.relative_to(site).as_posix()}: {address}"
