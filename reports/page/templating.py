"""How pages are rendered: one environment that escapes everything, and what the templates call."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from exitbench.reports.page.run_view import cell_parts
from exitbench.reports.page.table_data import cell_hint, shown_text
from exitbench.reports.tables.table import TableRow

WITH_A_VALUE = {"--jobs", "--executor", "--part", "--memory", "--out", "--subject"}
ALONE = {"--force", "--debug", "--verbose", "--no-report"}
"""Options of ``run`` that change no result."""

LONGEST_WORD = 26
"""A word that is longer is broken where it must; others never are."""
LONGEST_HYPHENATED = 10
"""A hyphenated word of a heading that is longer may go on behind its hyphen."""


def to_repeat(arguments: Iterable[str]) -> str:
    """The command without what changes no result, so that the same results make the same page.

    >>> to_repeat(["exitbench", "run", "my suite.toml", "--jobs", "4", "--seed", "1", "--out=here", "--force"])
    "exitbench run 'my suite.toml' --seed 1"
    """
    words, kept = iter(arguments), []
    for word in words:
        if word in WITH_A_VALUE:
            next(words, None)
        elif word not in ALONE and not word.startswith(tuple(f"{option}=" for option in WITH_A_VALUE)):
            kept.append(word)
    return shlex.join(kept)


def has_long_word(text: str) -> bool:
    """Whether a text must be broken inside a word, or it would not fit a column."""
    return any(len(word) > LONGEST_WORD for word in text.split())


def breakable(text: str) -> Markup:
    """A name that a narrow column may break behind a sign between a parameter and its value, before it breaks a word.

    >>> breakable("F-PABEE [divergence=mean-entropy]")
    Markup('F-PABEE [divergence=<wbr>mean-entropy]')
    """
    return Markup("<wbr>").join(escape(piece) for piece in re.split(r"(?<=[=|,])(?=\S)", shown_text(text)))


def soft(text: str) -> Markup:
    """What stands on one line where there is room, and otherwise goes on only behind a comma, never inside a range.

    >>> soft("1.07–1.47×, 5 of 6")
    Markup('1.07–1.47×,<wbr class="soft"> 5 of 6')
    """
    return Markup(',<wbr class="soft"> ').join(escape(piece) for piece in shown_text(text).split(", "))


def whole(text: str) -> Markup:
    """A heading whose short hyphenated words stay whole.

    >>> whole("Certified speed-up")
    Markup('Certified <span class="whole">speed-up</span>')
    """
    words = re.split(r"(?<![\w-])(\w+(?:-\w+)+)(?![\w-])", shown_text(text))
    kept = Markup('<span class="whole">{}</span>')
    return Markup("").join(
        kept.format(word) if number % 2 and len(word) <= LONGEST_HYPHENATED else escape(word)
        for number, word in enumerate(words)
    )


def by_kind(rows: Sequence[TableRow]) -> list[tuple[str, list[TableRow]]]:
    """Rows of one kind after another, so that bounds never stand among signals."""
    kinds = list(dict.fromkeys(row.kind for row in rows))
    return [(kind, [row for row in rows if row.kind == kind]) for kind in kinds]


def visible(value: Any) -> Any:
    """What the page shows of a value: a name's control and bidirectional signs as escapes, our own markup as it is."""
    if not isinstance(value, str) or isinstance(value, Markup):
        return value
    return shown_text(value)


def rendered(template: str, context: Mapping[str, Any]) -> str:
    """A template of this folder as text; equal contexts give equal text."""
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

    environment.tests["long"] = has_long_word
    environment.filters |= {
        "to_repeat": to_repeat,
        "groupby_kind": by_kind,
        "breakable": breakable,
        "soft": soft,
        "whole": whole,
    }
    own = {"source": source, "parts": cell_parts, "hint_of": cell_hint}
    return environment.get_template(template).render({**context, **own})
