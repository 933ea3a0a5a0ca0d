"""``exitbench verify``: is this cache what it says it is?"""

from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    cache: Annotated[str, typer.Argument(help="A cache, by name or path.", show_default=False)],
) -> None:
    """Check every hash, shape and number of a cache, and that its features give its logits.

    Ends with 0 for a good cache and with 1 for a defective one, one line per defect. Files that the manifest does not
    list are named as a warning: nothing reads them.

    **Example**

    `exitbench verify fixtures/caches/mpnet-base-sst2-dev`
    """
    from exitbench.cache import unlisted_files, verify
    from exitbench.cli.cache_argument import named_cache
    from exitbench.errors import InputError

    path = named_cache(cache)
    if not path.is_dir():
        raise InputError(f"{path}: expected a cache directory, found a file")
    for name in unlisted_files(path):
        echo(f"warning: {path}: {name!r} is not listed in the manifest", err=True)
    problems = verify(path)
    for problem in problems:
        echo(problem, err=True)
    if problems:
        raise typer.Exit(1)
    echo(f"{cache}: good")
