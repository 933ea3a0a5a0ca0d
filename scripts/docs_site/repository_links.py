"""Links between Markdown files of the repository as links between pages of the site.

A page of the site may stand for a file elsewhere (the README is its first page, a signal's file has a page); any other
file of the repository that a page refers to is copied beside the pages.
"""

import posixpath
import re
from pathlib import Path

ROOT_PAGES = {
    "README.md": "index.md",
    "fixtures/README.md": "fixtures.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASE.md": "release.md",
    "SECURITY.md": "vulnerabilities.md",
    "CHANGELOG.md": "changelog.md",
}
"""Files outside ``docs/`` that are pages of the site."""

LINK = re.compile(r"(!?\[[^\]]*\]\()([^)\s#]+)(#[^)\s]*)?(\))")
FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1", re.MULTILINE | re.DOTALL)


class Links:
    """Rewrites links; ``files`` are the copied files so far, path in the repository to place in the site."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.files: dict[str, str] = {}

    def rewritten(self, text: str, source: str, uri: str) -> str:
        """The text of a file of the repository, ``source``, with its links as they are on the page ``uri``.

        Code blocks and links to other hosts stay as they are, and so does a link to a file that is not there: mkdocs
        says which one it is.
        """

        def link(match: re.Match[str]) -> str:
            before, target, anchor, after = match.groups()
            page = self._place(posixpath.normpath(posixpath.join(posixpath.dirname(source), target)))
            if page is None:
                return match[0]
            return before + posixpath.relpath(page, posixpath.dirname(uri) or ".") + (anchor or "") + after

        parts, end = [], 0
        for fence in FENCE.finditer(text):
            parts += [LINK.sub(link, text[end : fence.start()]), fence[0]]
            end = fence.end()
        return "".join([*parts, LINK.sub(link, text[end:])])

    def _place(self, path: str) -> str | None:
        """Where a file of the repository is in the site; None where there is none."""
        if path in ROOT_PAGES:
            return ROOT_PAGES[path]
        folder, name = posixpath.split(path)
        if path.startswith("docs/"):
            notebook = path.removeprefix("docs/").replace("notebook.ipynb", "notebook.md")
            return notebook if (self.root / path).is_file() else None
        if folder == "signals" and name.endswith(".py"):
            return f"signals/{name.removesuffix('.py').replace('_', '-')}.md"
        if path.startswith("..") or not (self.root / path).is_file():
            return None
        self.files[path] = f"files/{path}"
        return self.files[path]
