"""``exitbench cost``: operations, parameters and measured time of a multi-exit network and its signals."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exitbench.cli.ctrl_c import stopping

if TYPE_CHECKING:
    from rich.table import Table

    from exitbench.benchmarks.measures.cost_file import Cost, Timing
    from exitbench.models.network.multi_exit import MultiExitModel
    from exitbench.signals.registry.registry import Registry

EIGHT = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")


@stopping()
def command(
    context: typer.Context,
    model: Annotated[
        Path | None, typer.Option(help="A folder made by `exitbench train`; its sizes count.", show_default=False)
    ] = None,
    layers: Annotated[int, typer.Option(min=1, help="Layers, without --model.")] = 12,
    width: Annotated[int, typer.Option(min=1, help="Width of the hidden states, without --model.")] = 768,
    intermediate: Annotated[int, typer.Option(min=1, help="Width of the feed-forward part, without --model.")] = 3072,
    classes: Annotated[
        list[int] | None, typer.Option(min=2, help="Classes; may be repeated. [2 and 3]", show_default=False)
    ] = None,
    length: Annotated[int, typer.Option(min=2, help="Tokens of a sample.")] = 128,
    timed: Annotated[bool, typer.Option("--time", help="Measure inference times too.")] = False,
    signals: Annotated[
        list[str] | None, typer.Option("--signals", help="Signals to time; by default the eight.", show_default=False)
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of the interleaved run.")] = 21,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples of a timed batch.")] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16.")] = "auto",
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="A folder for the tables as CSV and for cost.json, which reports read.", show_default=False),
    ] = None,
) -> None:
    """Count what a multi-exit network costs, and measure what asking a signal adds.

    Operations per module in the published convention and with attention, beside the published figures where the shape
    is BERT-base on 128 tokens; parameters; and with `--time` the inference time of every signal with exits that nothing
    reaches, against the plain network, in one interleaved run. Without `--model` a network of random weights is timed.

    **Examples**

    `exitbench cost`

    `exitbench cost --model models/bert-sst2 --time --out runs/paper`

    `exitbench cost --layers 24 --width 1024 --intermediate 4096 --classes 3`
    """
    from exitbench.benchmarks.measures.cost_file import Cost, write_cost
    from exitbench.benchmarks.measures.network_cost import Shape, counted_parameters, operations, parameters
    from exitbench.cli.signals_option import load

    if model is not None:
        _refuse_sizes(context)
    registry = load(signals_dir) if timed or signals_dir else None
    network = _loaded(model)
    if network is None:
        shape = Shape(layers, width, intermediate, length)
        counted = tuple(classes or (2, 3))
        table = parameters(shape, counted)
    else:
        from exitbench.models.network.sizes import network_sizes, parameter_counts

        shape = Shape(length=length, **network_sizes(network))
        counted = (len(network.config.classes),)
        table = counted_parameters(shape, counted[0], parameter_counts(network))
    timing = None
    if timed:
        assert registry is not None
        wanted = {"length": length, "rounds": rounds, "batch_size": batch_size, "precision": precision}
        network = network or _random(shape, counted[0])
        timing = _timing(network, signals or list(EIGHT), registry, device, wanted)
    name = str(model) if model is not None else "random weights" if timed else "shape only"
    cost = Cost(name, shape, tuple(operations(shape, counted)), tuple(table), timing)
    _show(cost)
    if out is not None:
        for path in write_cost(out, cost):
            typer.echo(f"wrote {path}", err=True)


def _refuse_sizes(context: typer.Context) -> None:
    """An InputError for a size on the command line beside a model, which has its own."""
    from exitbench.errors import InputError

    for name in ("layers", "width", "intermediate", "classes"):
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"expected either --model, whose sizes count, or --{name}, found both")


def _loaded(folder: Path | None) -> MultiExitModel | None:
    if folder is None:
        return None
    from exitbench.errors import InputError
    from exitbench.models.network.multi_exit import MultiExitModel

    if not folder.is_dir():
        raise InputError(f"expected a model folder at {folder}, found no such folder")

    return MultiExitModel.from_pretrained(folder)


def _random(shape: Any, classes: int) -> MultiExitModel:
    from exitbench.models.timing import random_model

    return random_model(
        layers=shape.layers,
        width=shape.width,
        intermediate=shape.intermediate,
        classes=classes,
        positions=shape.length,
    )


def _timing(
    network: MultiExitModel, written: list[str], registry: Registry, device: str, wanted: dict[str, Any]
) -> Timing:
    """Every signal against the plain network, in plain values for the file."""
    import platform

    import torch

    from exitbench.benchmarks.measures.cost_file import TimedSignal, Timing
    from exitbench.benchmarks.measures.network_cost import published_overheads
    from exitbench.errors import InputError
    from exitbench.models.devices import library_versions, processes
    from exitbench.models.timing import LEVEL, PLAIN, random_batch, time_signals
    from exitbench.progress import ProgressBar

    limit = int(network.backbone.config.max_position_embeddings)
    if wanted["length"] > limit:
        raise InputError(f"expected --length of at most {limit} for this model, found {wanted['length']}")
    chosen = [one for text in written for one in registry.expand(text)]
    network.to(processes(device).device)
    batch = random_batch(network, wanted["batch_size"], wanted["length"])
    with ProgressBar("timing", wanted["rounds"]) as bar:
        measured = time_signals(
            network, chosen, batch, rounds=wanted["rounds"], precision=wanted["precision"], advance=bar.advance
        )
    titles = {one.text: one.title for one in chosen}
    published = {**published_overheads()}
    published[PLAIN] = published["BERT-base"]
    rows = []
    for one in measured:
        title = titles.get(one.name, PLAIN)
        rows.append(
            TimedSignal(
                one.name,
                title,
                one.seconds.value,
                one.seconds.low,
                one.seconds.high,
                one.overhead.value,
                one.overhead.low,
                one.overhead.high,
                published[title][1] if title in published else None,
            )
        )
    setting = {
        **wanted,
        "device": str(network.device),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "versions": library_versions(),
        "level": LEVEL,
    }
    return Timing(setting, tuple(rows))


def _show(cost: Cost) -> None:
    """The tables in the terminal, with counts as the paper prints them."""
    from rich.console import Console

    from exitbench.benchmarks.measures.network_cost import short

    console, shape = Console(), cost.shape
    size = f"M={shape.layers}, N={shape.width}, F={shape.intermediate}, S={shape.length}"
    shown = _table(f"Operations ({size})", "module", "per", "C", "convention", "+ attention", "published")
    for row in cost.operations:
        counts = short(row.published_convention), short(row.with_attention), row.published or "-"
        shown.add_row(_words(row.module), row.per, str(row.classes), *counts, end_section=row.module == "network")
    console.print(shown)
    shown = _table(f"Parameters ({cost.network})", "part", "C", "count", "in short", "published")
    for part in cost.parameters:
        counts = f"{part.parameters:,}", short(part.parameters, 2), part.published or "-"
        shown.add_row(_words(part.part), str(part.classes), *counts)
    console.print(shown)
    if cost.timing is not None:
        console.print(_timing_table(cost.timing))


def _timing_table(timing: Timing) -> Table:
    from rich.text import Text

    setting = timing.setting
    title = (
        f"Inference time with exits that nothing reaches: batches of {setting['batch_size']}, {setting['length']} "
        f"tokens, {setting['device']}; medians of {setting['rounds']} rounds with {setting['level']:.0%} intervals"
    )
    shown = _table(title, "signal", "ms a batch", "interval", "overhead %", "interval", "published")
    for one in timing.rows:
        shown.add_row(
            Text(one.signal),
            f"{1e3 * one.seconds:.4g}",
            f"{1e3 * one.seconds_low:.4g}..{1e3 * one.seconds_high:.4g}",
            f"{one.overhead:+.1f}",
            f"{one.overhead_low:+.1f}..{one.overhead_high:+.1f}",
            "-" if one.published_overhead is None else f"{one.published_overhead:+.1f}",
        )
    return shown


def _table(title: str, *columns: str) -> Table:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title, style="bold"), title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for number, column in enumerate(columns):
        made.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    return made


def _words(name: str) -> str:
    return name.replace("_suite", " (this suite)").replace("_", " ")
