"""``--part i/n``: a share of the work, for job arrays."""

from __future__ import annotations

import re
from typing import Annotated

import typer

PartOption = Annotated[
    str | None,
    typer.Option("--part", metavar="I/N", help="Only this share; without it, all are joined.", show_default=False),
]
MOST_PARTS = 10_000


def parse_part(text: str | None) -> tuple[int, int] | None:
    """The number of a part, from 1, and the number of parts; None where none was asked for."""
    from exitbench.errors import InputError

    if text is None:
        return None
    match = re.fullmatch(r"([0-9]{1,5})/([0-9]{1,5})", text)
    number, count = (int(match[1]), int(match[2])) if match else (0, 0)
    if not 1 <= number <= count <= MOST_PARTS:
        raise InputError(
            f"expected --part I/N such as 3/16, with I from 1 to N and N up to {MOST_PARTS:,}, found {text!r}"
        )
    return number, count
