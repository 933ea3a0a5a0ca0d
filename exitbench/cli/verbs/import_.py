"""``exitbench import``: a cache from anybody's arrays."""

import shlex
import sys
import warnings
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo
from exitbench.errors import InputError


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
    role: Annotated[
        str, typer.Option(help="What the rows were used for: test, calibration, or train (the network has seen them).")
    ] = "test",
    cost_unit: Annotated[
        str, typer.Option(help="What `costs` count: relative, operations or milliseconds.")
    ] = "relative",
    describe_output: Annotated[
        list[str] | None, typer.Option(help="NAME=TEXT: what an extra output is; may be repeated.")
    ] = None,
    note: Annotated[str, typer.Option(help="A remark for the provenance.")] = "",
) -> None:
    """Make a cache from anybody's arrays.

    Needed is `logits` [layers, n, classes]. Without `labels` [n] an answer is right where it agrees with the last
    layer's. Taken where they are given: `features` [layers, n, width] with `weight` and `bias`, or `features.01` [n,
    width of layer 1], `weight.01` and so on; `offset_norm` [layers, n]; `ids` [n]; `groups` [n], rows that belong
    together; `costs` [layers], the cumulative cost of exiting at each layer; `outputs.NAME` [layers, n] or
    [layers, n, k], extra outputs for signals. A folder of .npy files is memory-mapped, so its arrays may be larger than
    memory. The same command resumes an interrupted import.

    **Examples**

    `exitbench import arrays.npz --task sst2 --split dev --out my-cache`

    `exitbench import arrays/ --task intent --split test --classes yes,no,maybe --features none --out my-cache`

    `exitbench import train.npz --task sst2 --split train --role train --cost-unit milliseconds --out my-calibration`
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
            role=role,
            cost_unit=cost_unit,
            descriptions=dict(map(output_description, describe_output or [])),
        )
    for warning in cache_warnings:
        echo(f"note: {warning.message}", err=True)
    echo(f"{out}: complete")


def output_description(written: str) -> tuple[str, str]:
    """Name and description of an output from NAME=TEXT."""
    name, equals, text = written.partition("=")
    if not equals:
        raise InputError(f"expected --describe-output NAME=TEXT, found {written!r}")
    return name, text
