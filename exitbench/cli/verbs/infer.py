"""``exitbench infer``: answers of a running multi-exit model, each from the layer where its signal says so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.cache_argument import named_cache
from exitbench.cli.ctrl_c import stopping
from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.formats.answer_lines import write_answers
from exitbench.cli.options.out_option import ForceOption, refuse_out
from exitbench.cli.request_times import BATCH_SIZES, REQUESTS, echo_requests, timed_requests
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.cache import Target
    from exitbench.models.answers import Answer
    from exitbench.models.data.unlabelled import TextSource
    from exitbench.models.inference import EarlyExitClassifier
    from exitbench.models.network.multi_exit import MultiExitModel
    from exitbench.progress import ProgressBar
    from exitbench.signals.contract.signal import ExitSignal

POOL = 50
"""Batches read at a time, so that texts of like length meet; with batches of one, every row at once."""


def command(
    file: Annotated[
        Path, typer.Argument(help="Texts: .txt (one a line), .csv, .tsv, .jsonl; `-` reads standard input.")
    ],
    model: Annotated[Path, typer.Option(help="A folder made by `exitbench train`.", show_default=False)],
    signal: Annotated[
        str | None,
        typer.Option(
            help="One signal, such as 'cap[alpha=1]'; with --speed-up also a grid, 'cap[alpha=0.1|1]'.",
            show_default=False,
        ),
    ] = None,
    signal_file: Annotated[
        Path | None,
        typer.Option(help="A signal as JSON, or what `exitbench threshold --json` prints.", show_default=False),
    ] = None,
    policy: Annotated[
        Path | None,
        typer.Option(help="Signal and thresholds from `exitbench threshold --out`.", show_default=False),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Where the signal's score lets a sample exit.", show_default=False)
    ] = None,
    speed_up: Annotated[
        float | None, typer.Option(help="Find the threshold for this speed-up on --calibrate.", show_default=False)
    ] = None,
    calibrate: Annotated[
        str | None, typer.Option(help="A cache of this model, by name or path.", show_default=False)
    ] = None,
    target: TargetOption = None,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Samples that go through the network together. [32; 1, 8 and 32 with --time]",
            show_default=False,
        ),
    ] = None,
    timed: Annotated[
        bool, typer.Option("--time", help="Measure how long requests wait instead of answering; --out takes JSON.")
    ] = False,
    requests: Annotated[int, typer.Option(min=1, help="With --time: requests at each batch size.")] = REQUESTS,
    text: Annotated[
        str | None, typer.Option(help="Column of the text; by default the one of the model's task.", show_default=False)
    ] = None,
    text_pair: Annotated[
        str | None, typer.Option(help="Column of the second text, if there is one.", show_default=False)
    ] = None,
    input_format: Annotated[str, typer.Option(help="auto (by the file's name), text, csv, tsv or jsonl.")] = "auto",
    output_format: Annotated[str, typer.Option("--format", help="csv or jsonl.")] = "csv",
    out: Annotated[
        Path | None, typer.Option(help="Where to write; without it, standard output.", show_default=False)
    ] = None,
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:N or mps.")] = "auto",
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16 (GPU).")] = "auto",
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    force: ForceOption = False,
) -> None:
    """Classify texts, exiting the network at the layer where the signal is sure enough.

    The layers after an exit are not computed. One row out for each row in: `id` (from 0), `class`, `exit_layer`
    (from 1) and `score`, the signal's number there; the last layer asks no signal, so its score is empty.

    **Examples**

    `exitbench infer --model models/bert-sst2 --signal 'cap[alpha=1]' --threshold 0.2 reviews.txt`

    `exitbench infer --model models/bert-sst2 --policy policy.json --format jsonl reviews.txt`

    `exitbench infer --model models/bert-sst2 --signal cap --calibrate caches/dev --speed-up 2 --out answers.csv x.tsv`

    `exitbench infer --model models/bert-sst2 --policy policy.json --time reviews.txt`

    `tail -f log.txt | exitbench infer --model models/bert-sst2 --signal deebert --threshold 0.3 --batch-size 1 -`
    """
    fit_cache(off=no_fit_cache)
    import exitbench.models  # noqa: F401 - refused without the models extra, before anything else
    from exitbench.errors import InputError

    if output_format not in ("csv", "jsonl"):
        raise InputError(f"expected --format csv or jsonl, found {output_format!r}")
    _refuse_thresholds(threshold, speed_up, calibrate)
    _refuse_paths(file, model, out, force=force)
    if timed and str(file) == "-":
        raise InputError("--time asks the same texts again and again: expected a file, found standard input")
    grid: list[ExitSignal] = []
    if policy is not None:
        if any(option is not None for option in (signal, signal_file, threshold, speed_up, calibrate)):
            raise InputError("--policy names signal and thresholds; it takes no other option for them")
    else:
        grid, stored = _named_signals(signal, signal_file, signals_dir or [], several=speed_up is not None)
        if speed_up is None and threshold is None:
            threshold = stored
            if threshold is None:
                raise InputError("expected either --threshold, or --speed-up with --calibrate, found neither")

    from exitbench.models.data.unlabelled import text_source
    from exitbench.models.devices import processes
    from exitbench.models.inference import EarlyExitClassifier
    from exitbench.models.network.multi_exit import MultiExitModel

    network = MultiExitModel.from_pretrained(model)
    source = text_source(file, task=network.config.task, kind=input_format, text=text, text_pair=text_pair)
    if policy is not None:
        classifier = EarlyExitClassifier.from_policy(
            policy, network, signals_dir=signals_dir or [], device=device, precision=precision
        )
    else:
        chosen = grid[0]
        if calibrate is not None:
            chosen, threshold = _calibrated(
                network, grid, named_cache(calibrate), threshold, speed_up, target_name(target)
            )
        assert threshold is not None
        network.to(processes(device).device)
        classifier = EarlyExitClassifier(network, chosen, threshold, precision=precision)
    if timed:
        _time_requests(classifier, source, BATCH_SIZES if batch_size is None else (batch_size,), requests, out)
        return
    inference = InferenceRun(classifier, source, 32 if batch_size is None else batch_size)
    with stopping("stopped" if out is None else f"stopped; {out} was not written"):
        write_answers(inference.answers(), output_format, out)
    echo(inference.outcome_line(), err=True)


def _time_requests(
    classifier: EarlyExitClassifier, source: TextSource, batch_sizes: Sequence[int], requests: int, out: Path | None
) -> None:
    """How long requests wait with exits as these texts make them, beside the full network; a table, and JSON."""
    from exitbench.atomic_files import write_text

    texts = list(source.rows())
    seconds = [second for _, second in texts if second is not None]
    tokens = classifier.tokens([first for first, _ in texts], seconds or None)
    setting = {"exits": f"with exits as {Path(source.name).name} makes them", "signal": classifier.signal.text}
    with stopping("stopped"):
        timing = timed_requests(classifier, tokens, batch_sizes=batch_sizes, requests=requests, setting=setting)
    echo_requests(timing)
    if out is not None:
        write_text(out, json.dumps(asdict(timing), indent=1) + "\n")
        echo(f"wrote {out}", err=True)


def _refuse_thresholds(threshold: float | None, speed_up: float | None, calibrate: str | None) -> None:
    """An InputError for options on the threshold that contradict each other, or a speed-up that is none."""
    from exitbench.benchmarks.thresholds.recommend import asked_point
    from exitbench.errors import InputError

    if threshold is not None and speed_up is not None:
        raise InputError("expected either --threshold, or --speed-up with --calibrate, found both")
    if speed_up is not None and calibrate is None:
        raise InputError("expected a cache of this model to read the threshold off (--calibrate), found none")
    if speed_up is not None:
        asked_point(speed_up, None)


def _refuse_paths(file: Path, model: Path, out: Path | None, *, force: bool) -> None:
    """An InputError for a file or folder that is not there, or one that would be overwritten."""
    from exitbench.errors import InputError

    if out is not None:
        refuse_out(out, force=force)
    if str(file) != "-" and not file.is_file():
        raise InputError(f"expected a file of texts at {file}, found no such file")
    if not model.is_dir():
        raise InputError(f"expected a model folder at {model}, found no such folder")


def _named_signals(
    text: str | None, file: Path | None, directories: list[Path], *, several: bool
) -> tuple[list[ExitSignal], float | None]:
    """The signal named on the command line, or the one in a JSON file, with the threshold if the file has one.

    A grid gives ``several``, where something is there to choose by.
    """
    from exitbench.cli.signal_file import read_signal
    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError

    if (text is None) == (file is None):
        raise InputError(f"expected either --signal or --signal-file, found {'neither' if text is None else 'both'}")
    registry = load(directories)
    if file is not None:
        stored, threshold = read_signal(file, registry)
        return [stored], threshold
    assert text is not None
    return (registry.expand(text) if several else [registry.make(text)]), None


def _calibrated(
    network: MultiExitModel,
    grid: list[ExitSignal],
    path: Path,
    threshold: float | None,
    speed_up: float | None,
    target: Target | None,
) -> tuple[ExitSignal, float]:
    """The signal chosen on the cache, fitted there if it learns, and its threshold, read off the cache unless given."""
    from exitbench.benchmarks.scoring.score_cache import fitted
    from exitbench.benchmarks.thresholds.calibrate import calibrate
    from exitbench.cli.unchanged_cache import unchanged_cache
    from exitbench.errors import InputError
    from exitbench.models.network.same_model import require_same_model

    cache = unchanged_cache(path, grid)
    require_same_model(network, cache)
    if speed_up is None:
        assert threshold is not None
        return (fitted(grid[0], cache, target=target) if grid[0].needs_fit else grid[0]), threshold
    calibration = calibrate(cache, grid, speed_up, target=target)
    point = calibration.point
    if point.status != "ok" and point.randomised is None:
        raise InputError(f"no threshold gives speed-up {speed_up:g} on {cache.name}: {point.reason}")
    reason = "" if point.status == "ok" else f"; {point.reason}"
    chosen = f"chosen: {calibration.signal.text}; " if len(grid) > 1 else ""
    echo(
        f"{chosen}threshold {point.threshold!r}: {point.speed_up:.2f}x fewer layers on the {cache.rows} samples of "
        f"{cache.name}{reason}",
        err=True,
    )
    return calibration.signal, point.threshold


@dataclass
class InferenceRun:
    """One pass over a source of texts, with what is counted on the way."""

    classifier: EarlyExitClassifier
    source: TextSource
    batch_size: int
    rows: int = 0
    layers: int = 0
    cut: int = 0
    blank: list[int] = field(default_factory=list)

    def answers(self) -> Iterator[Answer]:
        """The answers in the order of the rows. A file is checked as a whole first; a pipe is answered as it comes."""
        from exitbench.errors import InputError
        from exitbench.progress import ProgressBar

        pipe = self.source.is_pipe
        texts = self.source.rows(self.blank) if pipe else list(self.source.rows())
        total = 0 if isinstance(texts, Iterator) else len(texts)
        with ProgressBar("inferring", total, visible=not pipe) as bar:
            yield from self._chunks(iter(texts), bar)
        if self.rows == 0:
            raise InputError(f"expected at least one text in {self.source.name}, found none")

    def _chunks(self, texts: Iterator[tuple[str, str | None]], bar: ProgressBar) -> Iterator[Answer]:
        size = 1 if self.batch_size == 1 else self.batch_size * POOL
        while chunk := list(islice(texts, size)):
            seconds = [second for _, second in chunk if second is not None]
            tokens = self.classifier.tokens([first for first, _ in chunk], seconds or None)
            self.cut += tokens.cut
            for answer in self.classifier.answers(tokens, batch_size=self.batch_size, first_id=self.rows):
                self.layers += answer.exit_layer
                yield answer
            self.rows += len(chunk)
            bar.advance(len(chunk))

    def outcome_line(self) -> str:
        """What was done, in one line; texts that lost their end are reported here, once."""
        depth, limit = self.classifier.model.depth, self.classifier.model.config.max_length
        cut = f"; {self.cut} of them longer than {limit} tokens and cut" if self.cut else ""
        mean = self.layers / self.rows
        lines = "line" if len(self.blank) == 1 else "lines"
        cut += f"; {len(self.blank)} blank {lines} skipped" if self.blank else ""
        return f"{self.rows} texts{cut}; mean exit layer {mean:.2f} of {depth}, {depth / mean:.2f}x fewer layers"
