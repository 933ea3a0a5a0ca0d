"""``exitbench watch``: a signal's numbers again after every save of its file."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.ctrl_c import stopping
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    from exitbench.benchmarks.glance import Glance
    from exitbench.signals.contract.signal import ExitSignal
    from exitbench.signals.registry.registry import Registry

PAUSE = 0.1
"""Seconds between two looks at the file."""
RIVALS = "deebert,e-lang,cap"
Row = tuple[str, str]
"""A cache and the text of a signal."""


@stopping()
def command(
    file: Annotated[Path, typer.Argument(help="The signal's Python file.", show_default=False)],
    caches: Annotated[
        list[str], typer.Argument(metavar="CACHE...", help="Caches, by name or path.", show_default=False)
    ],
    signals: Annotated[
        list[str] | None, typer.Option(help=f"Rivals to show beside it; default: {RIVALS}.", show_default=False)
    ] = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    target: TargetOption = None,
    once: Annotated[bool, typer.Option("--once", help="Show the numbers once and end.")] = False,
) -> None:
    """Show a signal's row beside its rivals, what changed, and its checks, each time its file is saved.

    Values are cross-fit with one deal of the folds, without intervals and tests: `exitbench run` has those. An error in
    the file is printed in a line, and the next save is waited for; with --once it ends with 2. Ctrl-C ends it.

    **Examples**

    `exitbench watch my-signals/margin.py mpnet-base-rte-dev`

    `exitbench watch my-signals/margin.py dev-cache --signals deebert,gini`
    """
    from exitbench.errors import InputError

    if not file.is_file():
        raise InputError(f"expected a Python file with a signal, found none at {file}")
    from exitbench.cli.loading.declared_names import refuse_unknown_names
    from exitbench.cli.signals_option import load, separate_signals
    from exitbench.executors.pandas_later import load_pandas_later

    texts = separate_signals(signals) or RIVALS.split(",")
    refuse_unknown_names(texts, signals_dir or [])
    load_pandas_later()
    from exitbench.cli.cache_argument import named_cache
    from exitbench.cli.unchanged_cache import unchanged_cache

    registry = load(signals_dir)
    rivals = [registry.make(text) for text in texts]
    paths = [named_cache(cache) for cache in caches]
    opened = {path.name: unchanged_cache(path, rivals) for path in paths}
    from exitbench.benchmarks.glance import glance
    from exitbench.benchmarks.scoring.trial import try_signals

    judged = target_name(target)
    beside = {name: glance(cache, rivals, target=judged) for name, cache in opened.items()}
    by_agreement = {name: (judged or cache.manifest.target) == "final" for name, cache in opened.items()}
    before: dict[Row, Glance] = {}
    seen: bytes | None = None
    while True:
        content = saved_content(file)
        if once or (content is not None and content != seen):
            seen = content
            try:
                own = signals_of(file, registry)
                for cache in opened.values():
                    try_signals(cache, own)  # a crash has its place there
                now = {name: glance(cache, own, target=judged) for name, cache in opened.items()}
                for name, row in now.items():
                    echo(*glance_lines(name, row, beside[name], before, agreement=by_agreement[name]))
                before = {(name, row.signal): row for name, rows in now.items() for row in rows}
                echo(*conformance_lines(own))
            except InputError as error:
                if once:
                    raise
                from exitbench.cli.crash_place import crash_lines

                echo(f"{time.strftime('%H:%M:%S')} {': '.join(map(str.strip, crash_lines(error))) or error}")
            if once:
                return
        time.sleep(PAUSE)


def saved_content(file: Path) -> bytes | None:
    """The bytes of a file; None while an editor is replacing it."""
    try:
        return file.read_bytes()
    except OSError:
        return None


def signals_of(file: Path, registry: Registry) -> list[ExitSignal]:
    """The signals of the file with their defaults; an InputError where it does not load, also for an error in it."""
    from exitbench.errors import InputError
    from exitbench.signals.registry.discovery import signals_in

    made = [signal() for signal in signals_in(file)]
    for signal in made:
        if signal.name in registry.signals and Path(registry.origin(signal.name)).resolve() != file.resolve():
            raise InputError(f"{file}: a signal named {signal.name!r} exists already: {registry.origin(signal.name)}")
    return made


def glance_lines(
    cache: str, own: Sequence[Glance], rivals: Sequence[Glance], before: Mapping[Row, Glance], *, agreement: bool
) -> list[str]:
    """The signal's row and its rivals', and what changed since the last save; says where ``agreement`` judges."""
    from exitbench.cli.terminal import column_lines

    headings = list(own[0].numbers)
    rows = [[row.signal, *(two_digits(row.numbers[heading]) for heading in headings)] for row in (*own, *rivals)]
    judged = ", judged by agreement with the last layer" if agreement else ""
    lines = [f"{time.strftime('%H:%M:%S')} {cache}{judged}"]
    lines += column_lines(["signal", *headings], rows, numbers=range(1, len(headings) + 1))
    for row in own:
        earlier = before.get((cache, row.signal))
        if earlier is not None:
            changes = [
                f"{heading} {value - earlier.numbers[heading]:+.2f}"
                for heading, value in row.numbers.items()
                if not unchanged_number(value, earlier.numbers[heading])
            ]
            lines.append(f"since the last save, {row.signal}: {', '.join(changes) or 'no number changed'}")
    return lines


def unchanged_number(value: float, other: float) -> bool:
    """Whether two numbers are the same, or both are none."""
    return value == other or (math.isnan(value) and math.isnan(other))


def two_digits(value: float) -> str:
    """A number with two digits, a dash for none."""
    return "–" if math.isnan(value) else f"{value:.2f}"


def conformance_lines(signals: Sequence[ExitSignal]) -> list[str]:
    """How many of the checks each signal passes, and why it fails the others."""
    from exitbench.signals.conformance import run_checks

    lines = []
    for signal in signals:
        outcomes = run_checks(type(signal))
        failed = [outcome for outcome in outcomes if outcome.status == "fail"]
        lines.append(f"conformance of {signal.name}: {len(outcomes) - len(failed)}/{len(outcomes)}")
        lines += [f"  failed: {outcome.check.replace('_', ' ')}: {outcome.detail}" for outcome in failed]
    return lines
