"""``exitbench verify``: is this cache what it says it is?"""

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    cache: Annotated[Path, typer.Argument(help="The cache's directory.", show_default=False)],
) -> None:
    """Check every hash, shape and number of a cache, and that its features give its logits.

    Ends with 0 for a good cache and with 1 for a defective one, one line per defect.

    **Example**

    `exitbench verify fixtures/caches/mpnet-base-sst2-dev`
    """
    from exitbench.cache import verify
    from exitbench.errors import InputError

    if not cache.is_dir():
        raise InputError(f"{cache}: expected a cache directory, found {'a file' if cache.exists() else 'nothing'}")
    problems = verify(cache)
    for problem in problems:
        echo(problem, err=True)
    if problems:
        raise typer.Exit(1)
    echo(f"{cache}: good")
