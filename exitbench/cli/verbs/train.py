"""``exitbench train``: a multi-exit model from a pretrained encoder."""

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.ctrl_c import STOPPED
from exitbench.cli.terminal import echo
from exitbench.errors import InputError

DATA, EXITS, OPTIMISATION, MACHINE = "Data", "Exits", "Optimisation", "Machine and checkpoints"
"""The groups of options on the help page."""


def command(
    model: Annotated[
        str, typer.Option(help="A pretrained encoder: a folder, or a name on the hub.", show_default=False)
    ],
    task: Annotated[
        str,
        typer.Option(help="sst2, mrpc, qqp, qnli, rte or mnli; any name with --text and --label.", show_default=False),
    ],
    out: Annotated[Path, typer.Option(help="The model folder to make.", show_default=False)],
    data_dir: Annotated[
        Path | None,
        typer.Option(
            help="GLUE's TSV files, or train and dev as CSV or JSON lines; without it, the hub.",
            show_default=False,
            rich_help_panel=DATA,
        ),
    ] = None,
    text: Annotated[str | None, typer.Option(help="Column of the text in your own data.", rich_help_panel=DATA)] = None,
    text_pair: Annotated[
        str | None, typer.Option(help="Column of the second text, if there is one.", rich_help_panel=DATA)
    ] = None,
    label: Annotated[
        str | None, typer.Option(help="Column of the label in your own data.", rich_help_panel=DATA)
    ] = None,
    max_length: Annotated[
        int, typer.Option(min=4, help="Tokens of a text; longer ones are cut.", rich_help_panel=DATA)
    ] = 128,
    max_train_rows: Annotated[
        int | None, typer.Option(min=1, help="Train on a random part of this size.", rich_help_panel=DATA)
    ] = None,
    max_dev_rows: Annotated[
        int | None, typer.Option(min=1, help="Score epochs on a random part of this size.", rich_help_panel=DATA)
    ] = None,
    pooling: Annotated[
        str, typer.Option(help="A layer as one vector: its first token, or the mean of all.", rich_help_panel=EXITS)
    ] = "first",
    pooler: Annotated[
        str, typer.Option(help="Dense and tanh before the heads: shared, per-layer or none.", rich_help_panel=EXITS)
    ] = "shared",
    recipe: Annotated[
        str,
        typer.Option(help="How the exits are trained: one of `exitbench list recipes`.", rich_help_panel=EXITS),
    ] = "sum",
    gradient_equilibrium: Annotated[
        bool,
        typer.Option(
            "--gradient-equilibrium",
            help="A layer learns from the mean over the exits above it, not from their sum (ElasticBERT).",
            rich_help_panel=EXITS,
        ),
    ] = False,
    recipes_dir: Annotated[
        list[Path] | None,
        typer.Option("--recipes-dir", help="A folder with more recipes.", show_default=False, rich_help_panel=EXITS),
    ] = None,
    loss: Annotated[str | None, typer.Option(hidden=True)] = None,
    epochs: Annotated[
        int, typer.Option(min=1, help="Passes over the data, per stage.", rich_help_panel=OPTIMISATION)
    ] = 3,
    batch_size: Annotated[
        int, typer.Option(min=1, help="Samples per step and process.", rich_help_panel=OPTIMISATION)
    ] = 32,
    learning_rate: Annotated[
        float, typer.Option(min=0, help="Of the encoder, at its highest.", rich_help_panel=OPTIMISATION)
    ] = 3e-5,
    head_learning_rate: Annotated[
        float, typer.Option(min=0, help="Of heads and poolers, at its highest.", rich_help_panel=OPTIMISATION)
    ] = 5e-4,
    weight_decay: Annotated[
        float, typer.Option(min=0, help="Of matrices; biases and norms have none.", rich_help_panel=OPTIMISATION)
    ] = 0.01,
    warm_up: Annotated[
        float,
        typer.Option(min=0, max=0.99, help="Share of the steps with a rising rate.", rich_help_panel=OPTIMISATION),
    ] = 0.1,
    clip: Annotated[float, typer.Option(min=0, help="Largest norm of a gradient.", rich_help_panel=OPTIMISATION)] = 1.0,
    freeze_embeddings: Annotated[
        bool, typer.Option("--freeze-embeddings", help="Leave the embeddings alone.", rich_help_panel=OPTIMISATION)
    ] = False,
    seed: Annotated[
        int, typer.Option(min=0, help="Of heads, order, dropout and the random part.", rich_help_panel=OPTIMISATION)
    ] = 0,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.", rich_help_panel=MACHINE)] = "auto",
    precision: Annotated[
        str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16 (GPU).", rich_help_panel=MACHINE)
    ] = "auto",
    checkpoint_every: Annotated[
        int, typer.Option(min=0, help="Steps between checkpoints; 0 for none.", rich_help_panel=MACHINE)
    ] = 200,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after the last checkpoint.", rich_help_panel=MACHINE)
    ] = False,
) -> None:
    """Put a head after every layer of a pretrained encoder and fine-tune it on a task.

    After each epoch a line shows the dev score of every layer. A training that was stopped (Ctrl-C, kill) goes on with
    `--resume` and ends in the same weights as one that ran through. Several GPUs: put `accelerate launch -m` in front.

    **Examples**

    `exitbench train --model bert-base-uncased --task sst2 --data-dir glue --out models/bert-sst2`

    `exitbench train --model ./encoder --task rte --data-dir glue --pooling mean --epochs 5 --out models/rte`

    `exitbench train --model ./encoder --task sst2 --data-dir glue --recipe 'cosee[alpha=0.01]' --out models/cosee-sst2`

    `exitbench train --model ./encoder --task intents --data-dir data --text query --label intent --out models/intents`

    `accelerate launch -m exitbench train --model roberta-base --task mnli --out models/roberta-mnli`
    """
    if loss is not None:
        raise InputError(f"--loss is --recipe now: expected --recipe {loss}, found --loss {loss}")
    from exitbench.models import MultiExitConfig, MultiExitModel, load_examples, tokenize
    from exitbench.models.data.glue import task_card
    from exitbench.models.data.labelled import own_columns
    from exitbench.models.devices import leave_group, processes
    from exitbench.models.training.checkpoints import starting_point
    from exitbench.models.training.learning_rates import TrainingOptions
    from exitbench.models.training.recipe_registry import load_recipes
    from exitbench.models.training.training import Training

    first = processes(device).is_main_process

    def say(line: str, err: bool = True) -> None:
        if first:
            echo(line, err=err)

    if resume and (out / "training.json").is_file():
        say(f"{out}: already complete")
        leave_group()
        return
    # Before anything slow: whether this training may start at all.
    chosen = load_recipes(recipes_dir or []).make(recipe)
    starting_point(out, resume)
    columns = own_columns(text, text_pair, label)
    train = load_examples(task, "train", data_dir, columns).sample(max_train_rows, seed)
    dev = load_examples(task, "dev", data_dir, columns, train.classes).sample(max_dev_rows, seed)
    config = MultiExitConfig(train.classes, pooling, pooler, task, max_length, chosen.addition)  # type: ignore[arg-type]
    network = MultiExitModel.from_backbone(model, config, seed)
    train_tokens, dev_tokens = (tokenize(examples, network.tokenizer, max_length) for examples in (train, dev))
    for name, split in (("train", train_tokens), ("dev", dev_tokens)):
        if split.cut:
            say(f"note: {split.cut} of {len(split)} texts of {name} are longer than {max_length} tokens and were cut")
    options = TrainingOptions(
        epochs=epochs,
        batch_size=batch_size,
        learning_rate=learning_rate,
        head_learning_rate=head_learning_rate,
        weight_decay=weight_decay,
        warm_up=warm_up,
        clip=clip,
        freeze_embeddings=freeze_embeddings,
        gradient_equilibrium=gradient_equilibrium,
        seed=seed,
        precision=precision,
    )
    training = Training(
        network,
        train_tokens,
        dev_tokens,
        task_card(task, train.classes),
        chosen,
        options,
        out,
        device=device,
        checkpoint_every=checkpoint_every,
        metadata={"model": model, "max_train_rows": max_train_rows, "max_dev_rows": max_dev_rows},
        command=shlex.join(["exitbench", *sys.argv[1:]]),
        report=say,
    )
    result = training.run(resume)
    leave_group()
    if not result.finished:
        say(f"stopped after step {result.steps} of {training.total_steps}; go on with --resume")
        raise typer.Exit(STOPPED)
    say(f"{out}: complete", err=False)
