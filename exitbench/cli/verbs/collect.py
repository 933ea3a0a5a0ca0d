"""``exitbench collect``: a cache from a multi-exit model."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.terminal import echo


def command(
    model: Annotated[Path, typer.Option(help="A folder made by `exitbench train`.", show_default=False)],
    out: Annotated[Path, typer.Option(help="The cache to make.", show_default=False)],
    task: Annotated[str | None, typer.Option(help="The task; by default the one the model was trained on.")] = None,
    split: Annotated[str, typer.Option(help="dev, train, or another file's name without its ending.")] = "dev",
    data_dir: Annotated[
        Path | None, typer.Option(help="GLUE's TSV files, CSV or JSON lines; without it, the hub.", show_default=False)
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text in your own data.")] = None,
    text_pair: Annotated[str | None, typer.Option(help="Column of the second text, if there is one.")] = None,
    label: Annotated[str | None, typer.Option(help="Column of the label in your own data.")] = None,
    features: Annotated[
        str, typer.Option(help="Keep features as float16, bfloat16 or float32, or not at all (none).")
    ] = "float16",
    batch_size: Annotated[int, typer.Option(min=1, help="Samples per batch.")] = 64,
    shard_rows: Annotated[int, typer.Option(min=1, help="Rows per shard.")] = 4096,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16.")] = "auto",
    name: Annotated[str | None, typer.Option(help="The model's name in the cache; by default its folder's.")] = None,
    note: Annotated[str, typer.Option(help="A remark for the provenance.")] = "",
) -> None:
    """Run a multi-exit model over a split and keep what every layer says.

    One pass fills the cache with the logits and offset norms of all layers, and with the features unless
    `--features none` asks for a compact one. The same command goes on with a collection that was stopped.
    Several GPUs: put `accelerate launch -m` in front.

    **Examples**

    `exitbench collect --model models/bert-sst2 --task sst2 --data-dir glue --out caches/bert-sst2-dev`

    `exitbench collect --model models/intents --data-dir data --split test --text query --label intent --out intents`

    `accelerate launch -m exitbench collect --model models/roberta-mnli --features none --out caches/roberta-mnli-dev`
    """
    from exitbench.errors import InputError
    from exitbench.models import MultiExitModel, load_examples, tokenize
    from exitbench.models.collecting import collect
    from exitbench.models.data.glue import task_card
    from exitbench.models.data.labelled import own_columns
    from exitbench.models.devices import processes

    is_main_process = processes(device).is_main_process

    def report(line: str, err: bool = True) -> None:
        if is_main_process:
            echo(line, err=err)

    network = MultiExitModel.from_pretrained(model)
    task_name = task or network.config.task
    examples = load_examples(task_name, split, data_dir, own_columns(text, text_pair, label), network.config.classes)
    if examples.classes != network.config.classes:
        raise InputError(
            f"expected a model for the classes {', '.join(examples.classes)} of {task_name}, "
            f"found one for {', '.join(network.config.classes)} in {model}"
        )
    tokens = tokenize(examples, network.tokenizer, network.config.max_length)
    if tokens.cut:
        limit = network.config.max_length
        report(f"note: {tokens.cut} of {len(tokens)} texts are longer than {limit} tokens and were cut")
    with stopping(f"{out}: stopped; the same command goes on with it" if is_main_process else ""):
        collect(
            network,
            tokens,
            task_card(task_name, examples.classes),
            split,
            out,
            features=features,
            batch_size=batch_size,
            shard_rows=shard_rows,
            device=device,
            precision=precision,
            name=name,
            provenance={"command": shlex.join(["exitbench", *sys.argv[1:]]), "note": note},
        )
    report(f"{out}: complete", err=False)
