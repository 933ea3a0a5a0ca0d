"""The files that ``exitbench new-signal`` writes: a signal that works, to be changed into another, and its test."""

import keyword
import string
from enum import StrEnum
from pathlib import Path

TEMPLATES = Path(__file__).with_name("templates")


class Kind(StrEnum):
    """What a new signal is to start from."""

    PLAIN = "plain"
    PATIENCE = "patience"
    LEARNED = "learned"


STEMS = {Kind.PLAIN: "signal", Kind.PATIENCE: "patience", Kind.LEARNED: "learned"}

TAKEN = {
    "Check",
    "ClassVar",
    "Direction",
    "ExitSignal",
    "Input",
    "Layer",
    "Path",
    "Reference",
    "Self",
    "Sequence",
    "State",
}
TAKEN |= {"LearnedSignal", "Tensor"}
"""Names that the two files import, which the class must not take."""


def file_stem(name: str) -> str:
    """The name of a signal's file without ``.py``: hyphens become underscores.

    >>> file_stem("my-margin")
    'my_margin'
    """
    return name.replace("-", "_")


def class_name(name: str) -> str:
    """The name of a signal's class.

    >>> class_name("my-margin"), class_name("layer"), class_name("none")
    ('MyMargin', 'LayerRule', 'NoneRule')
    """
    words = "".join(word.capitalize() for word in name.split("-"))
    return f"{words}Rule" if words in TAKEN or keyword.iskeyword(words) else words


def sources(name: str, *, year: int, kind: Kind = Kind.PLAIN) -> tuple[str, str]:
    """The text of the signal's file and of its test."""
    values = {
        "name": name,
        "title": " ".join(word.capitalize() for word in name.split("-")),
        "class_name": class_name(name),
        "stem": file_stem(name),
        "year": year,
    }
    signal, test = (
        string.Template((TEMPLATES / file).read_text(encoding="utf-8")).substitute(values)
        for file in (f"{STEMS[kind]}.py.template", f"test_{STEMS[kind]}.py.template")
    )
    return signal, test
