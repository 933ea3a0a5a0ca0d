"""``exitbench cascade``: complete networks as the exits of one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.cache_argument import named_cache
from exitbench.cli.terminal import echo


def command(
    caches: Annotated[list[str], typer.Argument(help="Two caches or more, the cheapest first.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The directory of the new cache.", show_default=False)],
    costs: Annotated[
        str | None, typer.Option(help="What each network costs alone, such as 1,4.", show_default=False)
    ] = None,
) -> None:
    """Make one network of complete ones: a sample that is not trusted goes on to the next, and pays for both.

    The caches hold the same samples of one split by id. Costs are taken from the caches where these say them in
    operations or milliseconds, else from `--costs`.

    **Example**

    `exitbench cascade small-dev large-dev --costs 1,4 --out cascade-dev`
    """
    from exitbench.cache import Cache
    from exitbench.derive.cascade_caches import cascade

    cascade([Cache(named_cache(name)) for name in caches], out, costs=read_costs(costs))
    made = Cache(out)
    echo(
        f"{out}: {made.manifest.model.name}, {made.rows} samples, costs {', '.join(f'{c:g}' for c in made.costs or ())}"
    )


def read_costs(written: str | None) -> list[float] | None:
    """Numbers with commas between them."""
    from exitbench.errors import InputError

    if written is None:
        return None
    try:
        return [float(part) for part in written.split(",")]
    except ValueError:
        raise InputError(
            f"expected --costs as numbers with commas between them, such as 1,4, found {written!r}"
        ) from None
