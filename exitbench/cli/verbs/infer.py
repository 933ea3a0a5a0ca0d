"""``exitbench infer``: answers of a running multi-exit model, each from the layer where its signal says so."""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from exitbench.models.data.unlabelled import TextSource
    from exitbench.models.inference import Answer, EarlyExitClassifier
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
    signal: Annotated[str | None, typer.Option(help="One signal, such as 'cap[alpha=1]'.", show_default=False)] = None,
    signal_file: Annotated[
        Path | None,
        typer.Option(help="A signal as JSON, or what `exitbench threshold --json` prints.", show_default=False),
    ] = None,
    threshold: Annotated[
        float | None, typer.Option(help="Where the signal's score lets a sample leave.", show_default=False)
    ] = None,
    speed_up: Annotated[
        float | None, typer.Option(help="Find the threshold for this speed-up on --calibrate.", show_default=False)
    ] = None,
    calibrate: Annotated[
        Path | None, typer.Option(help="A cache of this model, to read or learn from.", show_default=False)
    ] = None,
    batch_size: Annotated[int, typer.Option(min=1, help="Samples that go through the network together.")] = 32,
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
    precision: Annotated[str, typer.Option(help="auto (half on CUDA), float32, bfloat16 or float16.")] = "auto",
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:
    """Classify texts, leaving the network at the layer where the signal is sure enough.

    The layers after an exit are not computed. One row out for each row in: `id` (from 0), `class`, `exit_layer`
    (from 1) and `score`, the signal's number there; the last layer asks no signal, so its score is empty.

    **Examples**

    `exitbench infer --model models/bert-sst2 --signal 'cap[alpha=1]' --threshold 0.2 reviews.txt`

    `exitbench infer --model models/bert-sst2 --signal cap --calibrate caches/dev --speed-up 2 --out answers.csv x.tsv`

    `tail -f log.txt | exitbench infer --model models/bert-sst2 --signal deebert --threshold 0.3 --batch-size 1 -`
    """
    import exitbench.models  # noqa: F401 - refused without the models extra, before anything else
    from exitbench.errors import InputError

    if output_format not in ("csv", "jsonl"):
        raise InputError(f"expected --format csv or jsonl, found {output_format!r}")
    if threshold is not None and speed_up is not None:
        raise InputError("expected either --threshold, or --speed-up with --calibrate, found both")
    if speed_up is not None and calibrate is None:
        raise InputError("expected a cache of this model to read the threshold off (--calibrate), found none")
    if speed_up is not None:
        from exitbench.benchmarks.thresholds.recommend import asked_point

        asked_point(speed_up, None)
    if out is not None and out.exists() and not force:
        raise InputError(f"{out} exists already; --force overwrites it")
    if out is not None and not out.parent.is_dir():
        raise InputError(f"{out}: the folder {out.parent} does not exist")
    if str(file) != "-" and not file.is_file():
        raise InputError(f"expected a file of texts at {file}, found no such file")
    if not model.is_dir():
        raise InputError(f"expected a model folder at {model}, found no such folder")
    chosen, stored_threshold = _chosen_signal(signal, signal_file, signals_dir or [])
    if speed_up is None and threshold is None:
        threshold = stored_threshold
        if threshold is None:
            raise InputError("expected either --threshold, or --speed-up with --calibrate, found neither")

    from exitbench.models.data.unlabelled import text_source
    from exitbench.models.devices import processes
    from exitbench.models.inference import EarlyExitClassifier
    from exitbench.models.network.multi_exit import MultiExitModel

    network = MultiExitModel.from_pretrained(model)
    source = text_source(file, task=network.config.task, kind=input_format, text=text, text_pair=text_pair)
    if calibrate is not None:
        chosen, threshold = _calibrated(network, chosen, calibrate, threshold, speed_up)
    assert threshold is not None
    network.to(processes(device).device)
    classifier = EarlyExitClassifier(network, chosen, threshold, precision=precision)
    run = Run(classifier, source, batch_size)
    try:
        _write(run.answers(), output_format, out)
    except KeyboardInterrupt:
        typer.echo("stopped" if out is None else f"stopped; {out} was not written", err=True)
        raise typer.Exit(1) from None
    typer.echo(run.summary(), err=True)


def _chosen_signal(
    written: str | None, stored: Path | None, directories: list[Path]
) -> tuple[ExitSignal, float | None]:
    """The signal named on the command line, or the one in a JSON file, with the threshold if the file has one."""
    from exitbench.cli.signal_file import read_signal
    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError

    if (written is None) == (stored is None):
        raise InputError(f"expected either --signal or --signal-file, found {'neither' if written is None else 'both'}")
    registry = load(directories)
    if stored is not None:
        return read_signal(stored, registry)
    assert written is not None
    return registry.make(written), None


def _calibrated(
    network: MultiExitModel, signal: ExitSignal, path: Path, threshold: float | None, speed_up: float | None
) -> tuple[ExitSignal, float]:
    """The signal, fitted on the cache if it learns, and its threshold, read off the cache unless given."""
    from exitbench.benchmarks.scoring.score_cache import fitted
    from exitbench.benchmarks.thresholds.calibrate import calibrate
    from exitbench.cache import Cache
    from exitbench.errors import InputError
    from exitbench.models.network.same_model import require_same_model

    cache = Cache(path)
    require_same_model(network, cache)
    if speed_up is None:
        assert threshold is not None
        return (fitted(signal, cache) if signal.needs_fit else signal), threshold
    found = calibrate(cache, signal, speed_up)
    reading = found.point
    if reading.status != "ok" and reading.randomised is None:
        raise InputError(f"no threshold gives speed-up {speed_up:g} on {cache.name}: {reading.reason}")
    beside = "" if reading.status == "ok" else f"; {reading.reason}"
    typer.echo(
        f"threshold {reading.threshold!r}: {reading.speed_up:.2f}x fewer layers on the {cache.rows} samples of "
        f"{cache.name}{beside}",
        err=True,
    )
    return found.signal, reading.threshold


@dataclass
class Run:
    """One pass over a source of texts, with what is counted on the way."""

    classifier: EarlyExitClassifier
    source: TextSource
    batch_size: int
    rows: int = 0
    layers: int = 0
    cut: int = 0

    def answers(self) -> Iterator[Answer]:
        """The answers in the order of the rows. A file is checked as a whole first; a pipe is answered as it comes."""
        from exitbench.errors import InputError
        from exitbench.progress import ProgressBar

        pipe = self.source.is_pipe
        texts = self.source.rows() if pipe else list(self.source.rows())
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

    def summary(self) -> str:
        """What was done, in one line; texts that lost their end are said here, once."""
        depth, limit = self.classifier.model.depth, self.classifier.model.config.max_length
        cut = f"; {self.cut} of them longer than {limit} tokens and cut" if self.cut else ""
        mean = self.layers / self.rows
        return f"{self.rows} texts{cut}; mean exit layer {mean:.2f} of {depth}, {depth / mean:.2f}x fewer layers"


def _lines(answers: Iterable[Answer], output_format: str) -> Iterator[str]:
    if output_format == "jsonl":
        for one in answers:
            record = {"id": one.id, "class": one.label, "exit_layer": one.exit_layer, "score": one.score}
            yield json.dumps(record, ensure_ascii=False) + "\n"
        return
    line = io.StringIO()
    writer = csv.writer(line, lineterminator="\n")
    writer.writerow(["id", "class", "exit_layer", "score"])
    for one in answers:
        writer.writerow([one.id, one.label, one.exit_layer, "" if one.score is None else repr(one.score)])
        yield line.getvalue()
        line.seek(0)
        line.truncate()


def _write(answers: Iterable[Answer], output_format: str, out: Path | None) -> None:
    """To standard output line by line, or to ``out``, all of it or nothing."""
    lines = _lines(answers, output_format)
    if out is None:
        try:
            for line in lines:
                sys.stdout.write(line)
                sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read has had enough; what is left in the buffer must not complain again at exit.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from None
        return
    from exitbench.atomic_files import write_whole

    write_whole(out, (line.encode() for line in lines))
