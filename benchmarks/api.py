"""For notebooks: a cache and some signals in, plain objects and pandas frames out.

>>> import tempfile
>>> from exitbench.cache import synthetic_cache
>>> with tempfile.TemporaryDirectory() as folder:
...     cache = synthetic_cache(folder + "/demo", rows=200, layers=4)
...     signals = ["deebert", "cap[alpha=0.1|1]"]
...     evaluation = evaluate(cache, signals, protocols=["in-sample"], speed_ups=[1.5], resamples=50)
>>> rows = evaluation.results
>>> len(rows[(rows.measure == "dis") & (rows.signal == "deebert")])
3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.replay.replay_signal import replay_signal
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.files import check_unique
from exitbench.benchmarks.results.schema import SCHEMAS, rows_table, table_of
from exitbench.benchmarks.results.vocabulary import Ties
from exitbench.benchmarks.run.compare_stage import compare_signals
from exitbench.benchmarks.run.measure_stage import measure_signal
from exitbench.benchmarks.run.plan import Plan
from exitbench.benchmarks.run.rows.figure_rows import FIGURE_TABLES
from exitbench.benchmarks.run.score_stage import score_signals
from exitbench.benchmarks.scoring.calibration_layers import check_inputs
from exitbench.benchmarks.scoring.score_cache import opened
from exitbench.benchmarks.suites.questions import Questions, check_thresholds_exist
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.discovery import load_registry

if TYPE_CHECKING:
    import pandas as pd

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


def plan_of(signals: Sequence[Signal], directories: Sequence[Path | str] = ()) -> Plan:
    """The configurations of each entry, texts made by the registry."""
    if isinstance(signals, str):
        raise InputError(f"expected a list of signals, found the text {signals!r}; write [{signals!r}]")
    registry = load_registry(directories)
    return Plan(
        tuple((signal,) if isinstance(signal, ExitSignal) else tuple(registry.expand(signal)) for signal in signals)
    )


def replay(
    cache: Cache | str | Path,
    signal: Signal,
    *,
    fit_on: Cache | str | Path | None = None,
    target: Target | None = None,
) -> Curve:
    """Every operating point of one signal on a cache, exactly: thresholds, speed-ups, scores, exit layers.

    ``target`` says what a right answer is: ``labels`` or ``final``; by default what the cache says.
    """
    made = load_registry().make(signal) if isinstance(signal, str) else signal
    return replay_signal(opened(cache), made, fit_on=None if fit_on is None else opened(fit_on), target=target)


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
    thresholds: Mapping[str, Sequence[float | str]] | str | None = None,
    ties: Ties = "half",
    resamples: int = 1000,
    folds: int = 5,
    seed: int = 0,
    area_range: Sequence[float] = (1 / 3, 1.0),
    deals: int | None = None,
    signals_dirs: Sequence[Path | str] = (),
    target: Target | None = None,
) -> Evaluation:
    """All measures, intervals and comparisons of some signals on one cache.

    ``signals`` are texts, grids or signal objects; ``thresholds`` map a signal, or ``*``, to given ones, where the word
    ``"per-layer"``, also by itself, asks for thresholds of each layer's own beside the shared one; ``calibration`` is
    what the protocol ``held-out`` chooses on; a tied pair counts one half for DIS, or nothing where ``ties`` is
    ``"strict"``; ``area_range`` are the relative costs between which the area under a curve is taken; ``deals`` is
    how often cross-fit deals its folds (5 times, once for signals that learn). An answer is right by the
    ``target``, ``labels`` or ``final`` (it agrees with the last layer's), by default as the cache says.
    Raises InputError for the first signal that cannot be evaluated.
    """
    given = {"*": [thresholds]} if isinstance(thresholds, str) else thresholds or {}
    questions = Questions(
        speed_ups=tuple(speed_ups),
        primary_speed_up=primary_speed_up,
        protocols=tuple(protocols),
        resamples=resamples,
        seed=seed,
        folds=folds,
        losses=tuple(losses),
        rates_speed_up=rates_speed_up,
        thresholds={name: tuple(values) for name, values in given.items()},
        ties=ties,
        area_range=(area_range[0], area_range[1]),
        deals=deals,
        target=target,
    )
    plan = plan_of(signals, signals_dirs)
    check_thresholds_exist(questions.thresholds, plan.configurations)
    source, chosen_on = opened(cache), None if calibration is None else opened(calibration)
    for signal in plan.configurations:
        for held in (source, chosen_on):
            if held is not None:
                check_inputs(held, signal)
    scored = score_signals(source, plan.configurations, questions, calibration=chosen_on)
    for configuration in scored.configurations:
        if configuration.cannot_run:  # here the samples could not teach it
            raise InputError(configuration.problem)
    measured = [measure_signal(scored, groups, questions, tuple(SCHEMAS)) for groups in plan.groups.values()]
    compared = compare_signals(scored, measured, questions, tuple(SCHEMAS))
    tables = {name: pa.concat_tables([signal.figure_data[name] for signal in measured]) for name in FIGURE_TABLES}
    tables["curves"] = pa.concat_tables([tables["curves"], compared.curves])
    tables["results"], tables["pairs"] = rows_table(compared.rows), table_of("pairs", compared.pairs)
    check_unique(tables["results"])
    return Evaluation(**{name: table.to_pandas() for name, table in tables.items()})
