"""One line of a suite's signals as views see it: its parameters, the values of its grid, and what tells it apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.bracketed_text import split_outside


@dataclass(frozen=True)
class RunEntry:
    """One line of the suite's signals, as the result files call it."""

    signal: str
    parameters: str
    title: str
    text: str

    @property
    def is_grid(self) -> bool:
        return "|" in self.parameters

    @property
    def values(self) -> list[str]:
        """The parameters of each value of the grid, in the grid's order; one element without a grid.

        >>> RunEntry("cap", "alpha=0.1|1,center=false", "CAP", "cap").values
        ['alpha=0.1,center=false', 'alpha=1,center=false']
        """
        parts = [part.partition("=") for part in split_outside(self.parameters, ",")] if self.parameters else []
        choices = [[f"{name}{sign}{value}" for value in split_outside(values, "|")] for name, sign, values in parts]
        return [",".join(combination) for combination in itertools.product(*choices)]

    @property
    def written(self) -> list[str]:
        """The parameters that the suite's text sets, others being at their defaults.

        >>> RunEntry("cap", "alpha=1,center=true", "CAP", "cap[center=true]").written
        ['center=true']
        """
        return [part for part in split_outside(self.text.partition("[")[2].removesuffix("]"), ",") if part]

    @property
    def varied(self) -> list[str]:
        """The names of the parameters that have more than one value."""
        pairs = (part.partition("=") for part in split_outside(self.parameters, ",") if part)
        return [name for name, _, values in pairs if len(split_outside(values, "|")) > 1]

    @property
    def settings(self) -> dict[str, str]:
        """The parameters by name, a grid's values joined by bars.

        >>> RunEntry("cap", "alpha=0.1|1,center=false", "CAP", "cap").settings
        {'alpha': '0.1|1', 'center': 'false'}
        """
        return dict(part.split("=", 1) for part in split_outside(self.parameters, ",") if part)

    def varied_text(self, parameters: str) -> str:
        """One value of the grid without the parameters that do not vary.

        >>> RunEntry("cap", "alpha=0.1|1,center=false", "CAP", "").varied_text("alpha=1,center=false")
        'alpha=1'
        """
        return ", ".join(part for part in split_outside(parameters, ",") if part.partition("=")[0] in self.varied)


def told_apart(entry: RunEntry, namesakes: Sequence[RunEntry]) -> str:
    """The parameters in which an entry differs from others of its title.

    >>> told_apart(RunEntry("x", "d=jsd,t=1|2", "X", ""), [RunEntry("x", "d=kl,t=1|2", "X", "")])
    'd=jsd'
    """
    return ",".join(
        f"{name}={value}"
        for name, value in entry.settings.items()
        if any(other.settings.get(name) != value for other in namesakes)
    )
