"""``exitbench import``: a cache from anybody's arrays."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo


def command(
    source: Annotated[Path, typer.Argument(help="An .npz file, or a folder of .npy files.", show_default=False)],
    task: Annotated[str, typer.Option(help="The task's name, such as sst2.", show_default=False)],
    split: Annotated[str, typer.Option(help="The split's name, such as dev.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The cache to make.", show_default=False)],
    classes: Annotated[
        str | None, typer.Option(help="Class names, separated by commas; GLUE's own where the task is known.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="accuracy or f1; GLUE's own where the task is known.")] = None,
    model: Annotated[str, typer.Option(help="The model's name.")] = "imported",
    features: Annotated[
        str, typer.Option(help="Store features as float16, bfloat16, float32, as they are (same), or not (none).")
    ] = "same",
    shard_rows: Annotated[int, typer.Option(min=1, help="Rows per shard.")] = 4096,
    note: Annotated[str, typer.Option(help="A remark for the provenance.")] = "",
) -> None:
    """Make a cache from anybody's arrays.

    Needed are `labels` [n] and `logits` [layers, n, classes]; `features` [layers, n, width], `weight`, `bias`,
    `offset_norm` [layers, n] and `ids` [n] are taken where they are given. A folder of .npy files
    is memory-mapped, so its arrays may be larger than memory. The same command resumes an interrupted import.

    **Examples**

    `exitbench import arrays.npz --task sst2 --split dev --out my-cache`

    `exitbench import arrays/ --task intent --split test --classes yes,no,maybe --features none --out my-cache`
    """
    from exitbench.cache import CacheWarning, import_arrays

    with warnings.catch_warnings(record=True) as cache_warnings:
        warnings.simplefilter("always", CacheWarning)
        import_arrays(
            source,
            out,
            task=task,
            split=split,
            classes=tuple(classes.split(",")) if classes else None,
            metric=metric,
            model=model,
            features=None if features == "none" else features,
            shard_rows=shard_rows,
            command=shlex.join(["exitbench", *sys.argv[1:]]),
            note=note,
        )
    for warning in cache_warnings:
        echo(f"note: {warning.message}", err=True)
    echo(f"{out}: complete")
