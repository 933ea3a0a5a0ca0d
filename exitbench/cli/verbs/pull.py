"""``exitbench pull``: a cache from the hub."""

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    address: Annotated[str, typer.Argument(help="hf://datasets/ORG/NAME, with @REVISION.", show_default=False)],
    target: Annotated[
        Path | None, typer.Argument(help="The directory of the cache; default: NAME.", show_default=False)
    ] = None,
) -> None:
    """Download a cache from the Hugging Face hub and verify it; nothing takes its name before it is whole and good.

    Only the manifest and the files that it lists are downloaded. The same call again resumes one that was stopped.

    **Example**

    `exitbench pull hf://datasets/me/my-cache my-cache`
    """
    import exitbench.hub  # noqa: F401 - refused without the hub extra, before anything else
    from exitbench.hub.hub_address import parse_address
    from exitbench.hub.pull_cache import pull_cache

    parsed = parse_address(address)
    folder = target or Path(parsed.name)
    commit = pull_cache(parsed, folder)
    echo(f"{folder}: good, from {parsed}, commit {commit[:12]}")
