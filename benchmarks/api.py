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
from typing import TYPE_CHECKING, Any

import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.replay.replay_signal import replay_signal
from exitbench.benchmarks.replay.trade_off_curve import Curve
from exitbench.benchmarks.results.files import check_unique
from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.schema import SCHEMAS, rows_table, table_of
from exitbench.benchmarks.results.vocabulary import BOUNDS, DETECTABLE, Ties
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


@dataclass(frozen=True, eq=False, repr=False)
class Evaluation:
    """The tables of :mod:`exitbench.benchmarks.results.schema` for one cache, as pandas frames.

    What there is to see at once is :meth:`to_frame`, which a notebook shows for the object itself; :meth:`plot` draws
    the trade-off. ``cache`` is its name, ``metric`` the measure of its task, ``questions`` what was asked.
    """

    results: pd.DataFrame
    pairs: pd.DataFrame
    curves: pd.DataFrame
    samples: pd.DataFrame
    histograms: pd.DataFrame
    risk_coverage: pd.DataFrame
    cache: str
    metric: str
    questions: Questions

    def to_frame(self, protocol: str | None = None, speed_up: float | None = None) -> pd.DataFrame:
        """One row per signal (and per parameters of a grid) in the order asked, then those of the bounds.

        The score near a speed-up, by default the primary one, with its interval and the speed-up really reached, and
        DIS by internal layer (``dis_1`` and so on). ``protocol`` is by default the last that was asked for.
        """
        chosen = self._protocol(protocol)
        point = at_speed_up(self.questions.primary_speed_up if speed_up is None else speed_up).text
        results = self.results[self.results["signal"] != DETECTABLE]
        rows = results[results["protocol"] == chosen].set_index(["signal", "parameters"])
        plain = rows[(rows["operating_point"] == point) & (rows["decisions"] == "")]
        if plain.empty:
            raise InputError(f"expected one of the speed-ups that were asked for, found {speed_up}")
        frame = plain.loc[plain["measure"] == self.metric, ["value", "low", "high"]]
        frame = frame.rename(columns={"value": self.metric})
        frame["speed_up"] = plain.loc[plain["measure"] == "speed_up", "value"]
        dis = rows[rows["measure"] == "dis"]
        for layer in sorted(dis["layer"].dropna().unique()):
            frame[f"dis_{int(layer)}"] = dis.loc[dis["layer"] == layer, "value"]
        return frame

    def plot(self, protocol: str | None = None, ax: Any = None) -> Any:
        """Score against speed-up, a line for each signal and for the bounds; returns matplotlib's axes.

        `exitbench figure` draws a run for paper; this is a look.
        """
        curves = self.curves
        points = curves[(curves["protocol"] == self._protocol(protocol)) & (curves["kind"] == "point")]
        for (signal, parameters), curve in points.groupby(["signal", "parameters"], sort=False):
            label = f"{signal}[{parameters}]" if parameters else str(signal)
            ax = curve.sort_values("speed_up").plot(x="speed_up", y="score", label=label, ax=ax)
        if ax is None:
            raise InputError(f"{self.cache}: no signal has a curve under {self._protocol(protocol)}")
        ax.set(xlabel="speed-up", ylabel=self.metric, title=f"{self.cache}, {self._protocol(protocol)}")
        return ax

    def __repr__(self) -> str:
        names = self.to_frame().index.get_level_values("signal").unique()
        signals = [name for name in names if name not in BOUNDS]
        what = f"{self._protocol()}, near {self.questions.primary_speed_up:g}x"
        return f"Evaluation of {', '.join(signals)} on {self.cache} ({what})\n{self.to_frame().round(2).to_string()}"

    def _repr_html_(self) -> str:
        return str(self.to_frame().round(2).to_html())

    def _protocol(self, asked: str | None = None) -> str:
        if asked is not None and asked not in self.questions.protocols:
            raise InputError(f"expected one of the protocols {', '.join(self.questions.protocols)}, found {asked!r}")
        return asked or self.questions.protocols[-1]


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

    ``cache`` is a :class:`Cache`, the path of one, or the name of one that came with the clone. ``signals`` are
    texts, grids or signal objects; ``thresholds`` map a signal, or ``*``, to given ones, where ``"per-layer"``, also
    by itself, asks for thresholds of each layer's own beside the shared one; ``calibration`` is what the protocol
    ``held-out`` chooses on; a tied pair counts one half for DIS, or nothing where ``ties`` is ``"strict"``;
    ``area_range`` are the relative costs between which the area under a curve is taken; ``deals`` is how often
    cross-fit deals its folds (5 times, once for signals that learn). An answer is right by the ``target``, ``labels``
    or ``final`` (it agrees with the last layer's), by default as the cache says.
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
    tables = {
        name: pa.concat_tables([part for signal in measured for part in signal.figure_data[name]])
        for name in FIGURE_TABLES
    }
    tables["curves"] = pa.concat_tables([tables["curves"], compared.curves])
    tables["results"], tables["pairs"] = rows_table(compared.rows), table_of("pairs", compared.pairs)
    check_unique(tables["results"])
    frames = {name: table.to_pandas() for name, table in tables.items()}
    return Evaluation(**frames, cache=source.name, metric=source.manifest.task.metric, questions=questions)
