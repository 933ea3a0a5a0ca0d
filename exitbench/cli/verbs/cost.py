"""``exitbench cost``: operations, parameters and measured time of a multi-exit network and its signals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from exitbench.cli.request_times import BATCH_SIZES, REQUESTS, echo_requests, policy_requests, timed_policy
from exitbench.cli.terminal import echo, terminal_console

if TYPE_CHECKING:
    import torch

    from exitbench.benchmarks.measures.cost_file import Cost, Timing
    from exitbench.benchmarks.measures.network_cost import Shape
    from exitbench.models.network.multi_exit import MultiExitModel
    from exitbench.reports.tables.table import Cell, Table
    from exitbench.signals.registry.registry import Registry

EIGHT = ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap")


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
    batch_size: Annotated[
        int | None,
        typer.Option(min=1, help="Samples of a timed batch. [1; 1, 8 and 32 with --policy]", show_default=False),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(
            help="Measure how long requests wait with the exits of a policy, from `exitbench threshold --out`.",
            show_default=False,
        ),
    ] = None,
    requests: Annotated[int, typer.Option(min=1, help="With --policy: requests at each batch size.")] = REQUESTS,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16 (GPU).")] = "auto",
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

    `exitbench cost --model models/bert-sst2 --policy policy.json`

    `exitbench cost --layers 24 --width 1024 --intermediate 4096 --classes 3`
    """
    from exitbench.benchmarks.measures.cost_file import Cost, write_cost
    from exitbench.benchmarks.measures.network_cost import (
        Operations,
        Shape,
        counted_parameters,
        operations,
        parameter_table,
    )
    from exitbench.cli.signals_option import load

    if model is not None:
        _refuse_sizes(context, ("layers", "width", "intermediate", "classes"), "--model")
    registry = load(signals_dir) if timed or signals_dir or policy is not None else None
    network = _loaded(model)
    stored = None
    if policy is not None:
        assert registry is not None
        stored = timed_policy(policy, registry, network)
        if network is None:
            _refuse_sizes(context, ("layers", "classes"), "--policy")
            layers, classes = stored.model.layers, [len(stored.model.classes)]
    added: list[Operations] = []
    if network is None:
        shape = Shape(layers, width, intermediate, length)
        class_counts = tuple(classes or (2, 3))
        parameter_rows = parameter_table(shape, class_counts)
    else:
        from exitbench.models.network.sizes import network_sizes, parameter_counts

        shape = Shape(length=length, **network_sizes(network))
        class_counts = (len(network.config.classes),)
        parameter_rows = counted_parameters(shape, class_counts[0], parameter_counts(network))
        if network.config.addition:
            more = network.added.operations(length)
            added.append(Operations("added", class_counts[0], "sample", more, more))
    timing = None
    if timed:
        assert registry is not None
        setting = {"length": length, "rounds": rounds, "batch_size": batch_size or 1, "precision": precision}
        network = network or _random_network(shape, class_counts[0])
        timing = _timing(network, signals or list(EIGHT), registry, device, setting)
    waiting = None
    if policy is not None and stored is not None:
        network = network or _random_network(shape, class_counts[0])
        network.to(_device(device))
        sizes = BATCH_SIZES if batch_size is None else (batch_size,)
        _refuse_length(network, length)
        waiting = policy_requests(network, policy, stored, length, sizes, requests, precision)
    name = str(model) if model is not None else "random weights" if network is not None else "shape only"
    cost = Cost(name, shape, (*operations(shape, class_counts), *added), tuple(parameter_rows), timing, waiting)
    _print_cost(cost)
    if out is not None:
        for path in write_cost(out, cost):
            echo(f"wrote {path}", err=True)


def _refuse_sizes(context: typer.Context, names: Sequence[str], owner: str) -> None:
    """An InputError for a size on the command line beside a model or a policy, which has its own."""
    from exitbench.errors import InputError

    for name in names:
        source = context.get_parameter_source(name)
        if source is not None and source.name == "COMMANDLINE":
            raise InputError(f"expected either {owner}, whose sizes count, or --{name}, found both")


def _device(name: str) -> torch.device:
    from exitbench.models.devices import processes

    device: torch.device = processes(name).device
    return device


def _refuse_length(network: MultiExitModel, length: int) -> None:
    from exitbench.errors import InputError

    limit = int(network.backbone.config.max_position_embeddings)
    if length > limit:
        raise InputError(f"expected --length of at most {limit} for this model, found {length}")


def _loaded(folder: Path | None) -> MultiExitModel | None:
    if folder is None:
        return None
    from exitbench.errors import InputError
    from exitbench.models.network.multi_exit import MultiExitModel

    if not folder.is_dir():
        raise InputError(f"expected a model folder at {folder}, found no such folder")

    return MultiExitModel.from_pretrained(folder)


def _random_network(shape: Shape, classes: int) -> MultiExitModel:
    from exitbench.models.timing import random_model

    return random_model(
        layers=shape.layers,
        width=shape.width,
        intermediate=shape.intermediate,
        classes=classes,
        positions=shape.length,
    )


def _timing(
    network: MultiExitModel, texts: list[str], registry: Registry, device: str, setting: dict[str, Any]
) -> Timing:
    """Every signal against the plain network, in plain values for the file."""
    import platform

    import torch

    from exitbench.benchmarks.measures.cost_file import TimedSignal, Timing
    from exitbench.benchmarks.measures.network_cost import published_overheads
    from exitbench.models.devices import library_versions, processes
    from exitbench.models.timing import LEVEL, PLAIN, random_batch, time_signals
    from exitbench.progress import ProgressBar

    _refuse_length(network, setting["length"])
    signals = [signal for text in texts for signal in registry.expand(text)]
    network.to(processes(device).device)
    batch = random_batch(network, setting["batch_size"], setting["length"])
    with ProgressBar("timing", setting["rounds"]) as bar:
        contenders = time_signals(
            network, signals, batch, rounds=setting["rounds"], precision=setting["precision"], advance=bar.advance
        )
    titles = {signal.text: signal.title for signal in signals}
    published = {**published_overheads()}
    published[PLAIN] = published["BERT-base"]
    rows = []
    for contender in contenders:
        title = titles.get(contender.name, PLAIN)
        rows.append(
            TimedSignal(
                signal=contender.name,
                title=title,
                seconds=contender.seconds.value,
                seconds_low=contender.seconds.low,
                seconds_high=contender.seconds.high,
                overhead=contender.overhead.value,
                overhead_low=contender.overhead.low,
                overhead_high=contender.overhead.high,
                published_overhead=published[title][1] if title in published else None,
            )
        )
    machine = {
        "device": str(network.device),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "versions": library_versions(),
        "level": LEVEL,
    }
    return Timing(setting | machine, tuple(rows))


def _print_cost(cost: Cost) -> None:
    """The tables of the report, with exact counts of parameters and with intervals of times."""
    from exitbench.reports.formats.terminal import terminal_table
    from exitbench.reports.tables.cost import operations_table, parameters_table, timing_table

    console, shape = terminal_console(), cost.shape
    echo(f"M={shape.layers} layers, N={shape.width} wide, F={shape.intermediate} between, S={shape.length} tokens")
    console.print(terminal_table(operations_table(cost)))
    console.print(terminal_table(_with_texts(parameters_table(cost), _exact_count)))
    if cost.timing is not None:
        setting = cost.timing.setting
        console.print(terminal_table(_with_texts(timing_table(cost), _with_interval)))
        echo(
            f"Inference time with exits that nothing reaches: batches of {setting['batch_size']}, "
            f"{setting['length']} tokens, {setting['device']}; medians of {setting['rounds']} rounds "
            f"with {setting['level']:.0%} intervals"
        )
    if cost.requests is not None:
        echo_requests(cost.requests)


def _with_texts(table: Table, text_of: Callable[[Cell], str]) -> Table:
    """The table with other texts in its cells."""
    rows = [replace(row, cells=tuple(replace(cell, text=text_of(cell)) for cell in row.cells)) for row in table.rows]
    return replace(table, rows=tuple(rows))


def _exact_count(cell: Cell) -> str:
    return cell.text if cell.value is None else f"{cell.value:,.0f} ({cell.text})"


def _with_interval(cell: Cell) -> str:
    return f"{cell.text} {cell.interval}".rstrip()
