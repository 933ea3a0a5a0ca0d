"""For notebooks: a cache and some signals in, plain objects and pandas frames out.

>>> import tempfile
>>> from exitbench.cache import synthetic_cache
>>> with tempfile.TemporaryDirectory() as folder:
...     cache = synthetic_cache(folder + "/demo", rows=200, layers=4)
...     found = evaluate(cache, ["deebert", "cap[alpha=0.1|1]"], protocols=["in-sample"], speed_ups=[1.5], resamples=50)
>>> rows = found.results
>>> len(rows[(rows.measure == "dis") & (rows.signal == "deebert")])
3
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]

from exitbench.benchmarks.replay.trade_off_curve import Curve, trade_off_curve
from exitbench.benchmarks.results.files import check_unique
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.results.vocabulary import Ties
from exitbench.benchmarks.run.compare_stage import write_pairs
from exitbench.benchmarks.run.measure_stage import write_measures
from exitbench.benchmarks.run.score_stage import write_scores
from exitbench.benchmarks.scoring.configuration import describe, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_cache import opened, score
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.benchmarks.suites.questions import Questions, check_thresholds_exist
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.discovery import load_registry

Signal = str | ExitSignal
"""A signal as a text (also a grid), or as an object: one of your own need not be registered."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """The tables of :mod:`exitbench.benchmarks.results.schema` for one cache, as pandas frames."""

    results: pd.DataFrame
    pairs: pd.DataFrame
    curves: pd.DataFrame
    samples: pd.DataFrame
    histograms: pd.DataFrame
    risk_coverage: pd.DataFrame


def made(signals: Sequence[Signal], directories: Sequence[Path | str] = ()) -> list[list[ExitSignal]]:
    """The configurations of each entry."""
    if isinstance(signals, str):
        raise InputError(f"expected a list of signals, found the text {signals!r}; write [{signals!r}]")
    registry = load_registry(directories)
    return [[one] if isinstance(one, ExitSignal) else registry.expand(one) for one in signals]


def outcomes_of(cache: Cache) -> Outcomes:
    """What every layer's answer is worth on this cache, [layers, samples]."""
    return Outcomes.of(cache.predictions(), cache.labels, 1 if cache.manifest.task.metric == "f1" else None)


def replay(cache: Cache | str | Path, signal: Signal, *, fit_on: Cache | str | Path | None = None) -> Curve:
    """Every operating point of one signal on a cache, exactly: thresholds, speed-ups, scores, exit layers."""
    source = opened(cache)
    (one,) = made([signal])[0] if not isinstance(signal, str) else [load_registry().make(signal)]
    facts = describe(one, source.layers)
    if facts.problem:
        raise InputError(f"signal {one.text} on {source.name}: {facts.problem}")
    values = score(source, one, fit_on=None if fit_on is None else opened(fit_on))
    return trade_off_curve(signal_scores(facts, values), outcomes_of(source))


def evaluate(
    cache: Cache | str | Path,
    signals: Sequence[Signal],
    *,
    protocols: Sequence[str] = ("in-sample", "cross-fit"),
    calibration: Cache | str | Path | None = None,
    speed_ups: Sequence[float] = (2.0, 3.0, 4.0),
    primary_speed_up: float = 2.0,
    rates_speed_up: float = 4.0,
    losses: Sequence[float] = (0.5, 1.0),
    thresholds: Mapping[str, Sequence[float | str]] | None = None,
    ties: Ties = "half",
    resamples: int = 1000,
    folds: int = 5,
    seed: int = 0,
    signals_dirs: Sequence[Path | str] = (),
) -> Evaluation:
    """All measures, intervals and comparisons of some signals on one cache.

    ``signals`` are texts, grids or signal objects; ``calibration`` is what the protocol ``held-out`` chooses on;
    a tied pair counts one half for DIS, or nothing where ``ties`` is ``"strict"``.
    Raises InputError for the first signal that cannot be evaluated.
    """
    questions = Questions(
        speed_ups=tuple(speed_ups),
        primary_speed_up=primary_speed_up,
        protocols=tuple(protocols),
        resamples=resamples,
        seed=seed,
        folds=folds,
        losses=tuple(losses),
        rates_speed_up=rates_speed_up,
        thresholds={name: tuple(given) for name, given in (thresholds or {}).items()},
        ties=ties,
    )
    entries = made(signals, signals_dirs)
    configurations = list({one.text: one for entry in entries for one in entry}.values())
    check_thresholds_exist(questions.thresholds, configurations)
    position = {one.text: number for number, one in enumerate(configurations)}
    groups: dict[str, list[tuple[int, ...]]] = {}
    for entry in entries:
        groups.setdefault(entry[0].name, []).append(tuple(position[one.text] for one in entry))
    with tempfile.TemporaryDirectory(prefix="exitbench-") as name:
        root = Path(name)
        folders = [root / f"measures-{number}" for number in range(len(groups))]
        for folder in (root / "scores", root / "pairs", *folders):
            folder.mkdir()
        write_scores(
            root / "scores",
            opened(cache),
            configurations,
            questions,
            None if calibration is None else opened(calibration),
        )
        scored = ScoredCache(root / "scores")
        for folder, group in zip(folders, groups.values(), strict=True):
            write_measures(folder, scored, group, questions)
        write_pairs(root / "pairs", scored, folders, questions)
        tables = {}
        for table in SCHEMAS:
            holders = [] if table in ("results", "pairs") else list(folders)
            if table in ("results", "pairs", "curves"):  # stage three draws the coin that everything is compared with
                holders.append(root / "pairs")
            tables[table] = pa.concat_tables([pq.read_table(folder / f"{table}.parquet") for folder in holders])
        check_unique(tables["results"])
        return Evaluation(**{table: found.to_pandas() for table, found in tables.items()})
