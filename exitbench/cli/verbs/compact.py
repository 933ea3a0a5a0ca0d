"""``exitbench compact``: a cache without its features."""

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    cache: Annotated[str, typer.Argument(help="The cache to copy, by name or path.", show_default=False)],
    target: Annotated[Path, typer.Argument(help="Where the compact copy goes.", show_default=False)],
) -> None:
    """Copy a cache without its features: all eight signals still run on it.

    Offset norms are kept, or computed first where they were not stored.

    **Example**

    `exitbench compact big-cache small-cache`
    """
    from exitbench.cache import compact
    from exitbench.cli.cache_argument import named_cache

    source = named_cache(cache)

    compact(source, target)
    sizes = [sum(file.stat().st_size for file in path.iterdir()) for path in (source, target)]
    echo(f"{target}: {sizes[1]:,} bytes, from {sizes[0]:,}")
