"""``exitbench push``: a cache to the hub."""

from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    cache: Annotated[str, typer.Argument(help="The cache, by name or path.", show_default=False)],
    address: Annotated[str, typer.Argument(help="hf://datasets/ORG/NAME, or with @BRANCH.", show_default=False)],
    private: Annotated[bool, typer.Option("--private", help="Make a new repository private.")] = False,
    licence: Annotated[
        str | None, typer.Option("--license", help="The licence for the card, such as cc-by-4.0.", show_default=False)
    ] = None,
) -> None:
    """Verify a cache and upload it as a dataset of the Hugging Face hub, with a card written from its manifest.

    Needs the token of `hf auth login`. The manifest is uploaded as it is: its provenance names the command that made
    the cache. A push that was stopped goes on where it was when it is called again.

    **Example**

    `exitbench push my-cache hf://datasets/me/my-cache --license cc-by-4.0`
    """
    import exitbench.hub  # noqa: F401 - refused without the hub extra, before anything else
    from exitbench.cli.cache_argument import named_cache
    from exitbench.hub.hub_address import parse_address
    from exitbench.hub.push_cache import push_cache

    parsed = parse_address(address)
    commit = push_cache(named_cache(cache), parsed, private=private, licence=licence)
    echo(f"{parsed}: pushed, commit {commit[:12]}")
