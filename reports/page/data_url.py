"""A drawn figure inside an attribute: a picture in a document of its own, which can neither load nor run anything."""

from __future__ import annotations

import re
from urllib.parse import quote

from markupsafe import Markup

UNCODED = " <>/:;=,'()!*+?@[]{}|^"
"""Signs of an SVG that mean nothing inside a double-quoted attribute; coding them would triple their size."""


def data_url(svg: str) -> Markup:
    """An SVG as a data: URL, ready for a double-quoted attribute.

    Tags are quoted with the other sign, so that only signs which end the attribute or the URL need a code.

    >>> str(data_url('<svg><text fill="#123456">5% "a"</text></svg>'))
    "data:image/svg+xml;charset=utf-8,<svg><text fill='%23123456'>5%25 %22a%22</text></svg>"
    """
    body = re.sub(r">\s+<", "><", svg[svg.index("<svg") :].strip())
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<[^>]+>", lambda tag: other_quotes(tag.group(0)), body)
    return Markup(f"data:image/svg+xml;charset=utf-8,{quote(body, safe=UNCODED)}")  # noqa: S704 - no quote is left


def other_quotes(tag: str) -> str:
    """A tag on one line, with single quotes where that changes nothing else."""
    tag = " ".join(tag.split())
    return tag if "'" in tag else tag.replace('"', "'")
