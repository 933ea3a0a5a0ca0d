"""``exitbench derive``: the same rows with other answers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.cache_argument import named_cache
from exitbench.cli.options.executor_option import ExecutorOption, chosen_executor
from exitbench.cli.terminal import echo


def command(
    method: Annotated[str, typer.Argument(help="One method, such as 'heads[penalty=0.1]'.", show_default=False)],
    train: Annotated[str, typer.Option(help="The cache that the method is fitted on.", show_default=False)],
    on: Annotated[str, typer.Option(help="The cache whose rows get new answers.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The directory of the new cache.", show_default=False)],
    compact: Annotated[bool, typer.Option("--compact", help="Do not keep features.")] = False,
    methods_dir: Annotated[
        list[Path] | None, typer.Option("--methods-dir", help="A folder with more methods.", show_default=False)
    ] = None,
    executor: ExecutorOption = "local",
) -> None:
    """Fit new answers for every exit on one cache and give them to the rows of another of the same network.

    Rows, ids, labels and the last layer stay as they are; `exitbench list methods` shows the methods. The same call
    again resumes one that was stopped.

    **Examples**

    `exitbench derive heads --train my-calibration --on my-dev --out my-heads-dev`

    `exitbench derive 'ensemble[weights=equal]' --train my-calibration --on my-dev --out my-ensemble-dev`
    """
    from exitbench.cache import Cache
    from exitbench.derive.derive_cache import derive_folders
    from exitbench.derive.registry import load_methods

    made = load_methods(methods_dir or []).make(method)  # a mistyped one is refused before anything starts
    paths = [named_cache(train), named_cache(on), out]
    with chosen_executor(executor, None, 1) as workers:
        if workers.is_remote:  # where the current folder is another one
            paths = [path.absolute() for path in paths]
        directories = [directory.absolute() for directory in methods_dir or []]
        workers.call_each(derive_folders, [(method, directories, *paths, compact)])
    derived = Cache(out)
    seen = " (the method was fitted on rows of it)" if derived.manifest.split_role == "train" else ""
    echo(f"{out}: {made.text}, {derived.layers} layers, {derived.rows} samples{seen}")
