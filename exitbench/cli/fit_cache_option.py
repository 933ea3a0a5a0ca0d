"""``--no-fit-cache``, an option of every verb that fits signals."""

from __future__ import annotations

from typing import Annotated

import typer

FitCacheOption = Annotated[
    bool, typer.Option("--no-fit-cache", help="Fit signals that learn again, and keep nothing for the next time.")
]


def fit_cache(*, off: bool) -> None:
    """Turn the fit cache off where the user asks for it."""
    if off:
        from exitbench.benchmarks.scoring.fit_cache import turn_off_fit_cache

        turn_off_fit_cache()
