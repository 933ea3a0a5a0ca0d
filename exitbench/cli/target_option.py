"""The option ``--target`` of every verb that judges answers."""

from enum import StrEnum
from typing import Annotated, Literal

import typer


class TargetName(StrEnum):
    """What a right answer is: equal to the label, or to the last layer's answer."""

    labels = "labels"
    final = "final"


TargetOption = Annotated[
    TargetName | None,
    typer.Option(
        "--target",
        help="A right answer equals the label (labels) or agrees with the last layer (final); as the cache says.",
        show_default=False,
    ),
]


def target_name(target: TargetName | None) -> Literal["labels", "final"] | None:
    """The target as the other rooms know it."""
    return None if target is None else target.value
