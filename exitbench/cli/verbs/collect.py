"""``exitbench collect``: a cache from a multi-exit model."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.options.part_option import PartOption, parse_part
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.cache.format.manifest import SplitRole


def command(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The cache to make.", show_default=False)],
    model: Annotated[Path | None, typer.Option(help="A folder made by `exitbench train`.", show_default=False)] = None,
    network: Annotated[
        str | None,
        typer.Option(
            help="A network of your own: FILE.py:function or package.module:function.",
            metavar="FILE.py:FUNCTION",
            show_default=False,
        ),
    ] = None,
    task: Annotated[str | None, typer.Option(help="The task; by default the one the model was trained on.")] = None,
    split: Annotated[str, typer.Option(help="dev, train, or another file's name without its ending.")] = "dev",
    data_dir: Annotated[
        Path | None, typer.Option(help="GLUE's TSV files, CSV or JSON lines; without it, the hub.", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text in your own data.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text, if there is one.")] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of the label in your own data; without it, right is what the last layer says."),
    ] = None,
    sample_id: Annotated[
        str | None, typer.Option("--id", help="Column of a number for every sample in your own data.")
    ] = None,
    group: Annotated[str | None, typer.Option(help="Column of a number that rows which belong together share.")] = None,
    role: Annotated[
        str, typer.Option(help="What the rows are for: test, calibration, or train if the network was trained on them.")
    ] = "test",
    features: Annotated[
        str, typer.Option(help="Keep features as float16, bfloat16 or float32, or not at all (none).")
    ] = "float16",
    batch_size: Annotated[int, typer.Option(min=1, help="Samples per batch.")] = 64,
    shard_rows: Annotated[int, typer.Option(min=1, help="Rows per shard.")] = 4096,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16 (GPU).")] = "auto",
    name: Annotated[str | None, typer.Option(help="The model's name in the cache; by default its folder's.")] = None,
    note: Annotated[str, typer.Option(help="A remark for the provenance.")] = "",
    part: PartOption = None,
) -> None:
    """Run a multi-exit model over a split and keep what every layer says.

    One pass fills the cache with the logits and offset norms of all layers, and with the features unless
    `--features none` asks for a compact one. The same command goes on with a collection that was stopped.
    Several GPUs: put `accelerate launch -m` in front. Job arrays: `--part 3/16` for each job, then once without it.

    `--network` takes any PyTorch network: the function gets the split's name and returns an `exitbench.models.Network`
    with its rows and a generator over its exits; operations up to each exit are counted. Only this function is run.

    **Examples**

    `exitbench collect --model models/bert-sst2 --task sst2 --data-dir glue --out caches/bert-sst2-dev`

    `exitbench collect --model models/intents --data-dir data --split test --text query --label intent --out intents`

    `exitbench collect --network resnet.py:resnet20 --task cifar10 --split test --out caches/resnet20-cifar10-dev`

    `accelerate launch -m exitbench collect --model models/roberta-mnli --features none --out caches/roberta-mnli-dev`
    """
    share = parse_part(part)  # before torch is loaded
    from exitbench.errors import InputError
    from exitbench.models import MultiExitModel, load_examples, tokenize
    from exitbench.models.collecting import collect
    from exitbench.models.data.glue import task_card
    from exitbench.models.data.labelled import collected_columns
    from exitbench.models.devices import leave_group, processes

    is_main_process = processes(device).is_main_process
    settings: dict[str, Any] = {
        "features": features,
        "batch_size": batch_size,
        "shard_rows": shard_rows,
        "role": cast("SplitRole", role),
        "part": share,
        "provenance": {"command": shlex.join(["exitbench", *sys.argv[1:]]), "note": note},
    }

    def report(line: str, err: bool = True) -> None:
        if is_main_process:
            echo(line, err=err)

    ended = f"{out}: complete"
    if share is not None:
        ended = f"{out}: part {share[0]} of {share[1]}; once all have ended, the same command without --part joins them"
    stopped = f"{out}: stopped; the same command goes on with it" if is_main_process else ""
    if network is not None:
        _refuse_options(context)
        with stopping(stopped):
            _collect_own(network, task, split, out, name, settings)
        leave_group()
        report(ended, err=False)
        return
    if model is None:
        raise InputError("expected --model with a folder made by `exitbench train`, or --network, found neither")
    multi_exit = MultiExitModel.from_pretrained(model)
    task_name, classes = task or multi_exit.config.task, multi_exit.config.classes
    columns = collected_columns(text, text_pair, label, sample_id, group)
    examples = load_examples(task_name, split, data_dir, columns, classes)
    if examples.classes != classes:
        raise InputError(
            f"expected a model for the classes {', '.join(examples.classes)} of {task_name}, "
            f"found one for {', '.join(classes)} in {model}"
        )
    tokens = tokenize(examples, multi_exit.tokenizer, multi_exit.config.max_length)
    if tokens.cut:
        limit = multi_exit.config.max_length
        report(f"note: {tokens.cut} of {len(tokens)} texts are longer than {limit} tokens and were cut")
    with stopping(stopped):
        collect(
            multi_exit,
            tokens,
            task_card(task_name, examples.classes),
            split,
            out,
            device=device,
            precision=precision,
            name=name,
            **settings,
        )
    leave_group()
    report(ended, err=False)


def _refuse_options(context: typer.Context) -> None:
    """An InputError for an option beside --network that the function answers itself."""
    from exitbench.errors import InputError

    for option in ("model", "data_dir", "text", "text_pair", "label", "sample_id", "group", "device", "precision"):
        source = context.get_parameter_source(option)
        if source is not None and source.name == "COMMANDLINE":
            written = "--id" if option == "sample_id" else f"--{option.replace('_', '-')}"
            raise InputError(
                f"expected --network, whose function brings network and rows, without {written}; found both"
            )


def _collect_own(
    reference: str, task: str | None, split: str, out: Path, name: str | None, settings: dict[str, Any]
) -> None:
    from exitbench.errors import InputError
    from exitbench.models.data.glue import task_card
    from exitbench.models.own_network.collect_network import collect_network
    from exitbench.models.own_network.loading import load_network, source_sha256

    if task is None:
        raise InputError("expected --task with the name of the task beside --network, found none")
    network = load_network(reference, split)
    settings["provenance"] |= {"network": reference, "network_sha256": source_sha256(reference)}
    card = task_card(task, tuple(map(str, network.classes)))
    own_name = name or reference.rpartition(":")[2]
    collect_network(network, card, split, out, name=own_name, reference=reference, **settings)
