"""The files of a finished run: their columns, how they are written, how they are read.

``results.parquet`` holds one row per number. Its key is :data:`KEY`; what the columns mean where a
reader could doubt:

``signal`` and ``parameters``
    The registry name, and the parameters as text (``alpha=0.1``). A suite's entry with a grid has one
    row per value of the grid (``alpha=0.1``) *and* rows for the value that the protocol chose, whose
    ``parameters`` are the grid itself (``alpha=0.01|0.1|1|10``); ``chosen`` has what was chosen.
    Only the rows of a suite's entry as a whole take part in best, pairs and averages.
    Where a suite asks for per-layer thresholds, an entry has rows at the speed-ups with ``thresholds=shared``,
    ``thresholds=quota`` and ``thresholds=greedy`` behind its parameters, all measured alike; see
    :mod:`exitbench.benchmarks.run.rows.per_layer_rows`. They take no part in best.
    Bounds appear as signals ``oracle``, ``final`` and ``fixed`` (one row per ``layer``), repeated for
    each protocol so that every table has them; ``fixed`` without a layer is a fixed layer at exactly a speed-up of the
    suite, randomised between two layers unless one has it. The bound ``random`` has empty ``parameters`` and is the
    expected value of exiting at random, in closed form, at the suite's speed-ups. A suite that lists the
    signal ``random`` has rows for both: those of the signal have its parameters (``seed=0``).
    ``detectable`` is no signal: its rows have the smallest difference that the column's rows could show, with empty
    ``parameters`` for one pair, with ``adjusted`` for one of all pairs of the column.
``operating_point``
    Empty, ``speed_up=4``, ``loss=0.5``, ``harm=2``, ``tau=0.3``, ``tau=median`` or ``final``. At ``harm=2`` there is
    ``certified_speed_up`` only: that of a threshold of which it is certain with 90% confidence that at most 2 points of
    the answers are wrong where the last layer's is right. Half of the samples chose and half certified, whatever
    protocols the suite names, so its ``protocol`` is ``certified``; ``n`` are the certifying samples. The median is a
    threshold that is itself a cached score (see :mod:`exitbench.benchmarks.suites.suite`); its number is in
    ``threshold`` and not here. A fixed threshold involves no choice, so its values have rows under the
    suite's first protocol only.
``layer``
    From 1; empty for what is no property of one layer.
``decisions``
    ``all`` or ``reached`` for the two exit rates at an operating point; ``equal-share`` for the same rates without one,
    when at each layer as many samples exit as it gets right (:mod:`exitbench.benchmarks.measures.equal_share`);
    ``all`` also for ``exit_share``, the percentage of all decisions that are exits;
    ``randomised`` for the value at exactly the speed-up asked for, which an operating point elsewhere has too;
    otherwise empty.
``value, low, high, std_err``
    Scores, rates and DIS in points (0..100), AURC in points of error rate, ECE and Brier score times 100,
    areas in points, speed-ups as ratios; intervals at 95 %.
``measure``
    Beside what is judged, ``fitted_parameters`` and ``fitted_rows`` of a signal that learns: how many numbers its fit
    gave it and on how many samples, as the mean over the protocol's fits.
``threshold``
    The printed threshold; under cross-fit, where each fold has another, the median (of an even number the lower of the
    two in the middle) of those of the first deal, empty where folds chose different parameters.
``status, reason``
    How far a number may be trusted, see :mod:`exitbench.benchmarks.results.status`: ``ok``, ``undefined``,
    ``unmatched``, ``degenerate``, ``no-exit`` or ``unreliable``.
    Under ``cross-fit`` a value is the mean over several deals of folds, whose spread is part of its error; the
    other files are about the first deal.
``best, tied_with_best``
    Empty where nothing is compared; ``tied_with_best`` is true for the best itself too.
``chosen``
    For a grid, the parameters chosen for the row's operating point and in how many folds, as JSON:
    ``{"alpha=1": 3, "alpha=0.1": 2}``, the most frequent first; of rows without one, those chosen at the primary
    speed-up. Empty elsewhere, and for areas and averages, which are over several choices.

Average over tasks: rows with an empty ``cache`` and the task ``average``, per model and split. There
``accuracy`` is the mean of all tasks' accuracies; where tasks differ in their metric,
``mean_accuracy_f1`` is the mean of each task's score (accuracy for some, F1 for others, as the
reason says), which is the paper's AVG column. In the rows of one cache the same name means something
else: the mean of that cache's accuracy and F1.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa  # type: ignore[import-untyped]

from exitbench.benchmarks.results.operating_point import NOWHERE, OperatingPoint, operating_point

KEY = (
    "cache",
    "model",
    "task",
    "split",
    "protocol",
    "signal",
    "parameters",
    "operating_point",
    "layer",
    "decisions",
    "measure",
)
"""What makes a row of ``results.parquet`` unique."""


ENTRY_COLUMNS = ("cache", "model", "task", "split", "protocol", "signal", "parameters")
"""Which entry of which cache a row is about, in every file but the pairs."""

TEXT, REAL, COUNT, LAYER, FLAG = pa.string(), pa.float64(), pa.int64(), pa.int32(), pa.bool_()
CACHE_FIELDS = [("cache", TEXT), ("model", TEXT), ("task", TEXT), ("split", TEXT), ("protocol", TEXT)]
SIGNAL_FIELDS = [("signal", TEXT), ("parameters", TEXT)]
QUESTION_FIELDS = [("operating_point", TEXT), ("layer", LAYER), ("decisions", TEXT), ("measure", TEXT)]

SCHEMAS: Mapping[str, pa.Schema] = {
    "results": pa.schema(
        CACHE_FIELDS
        + SIGNAL_FIELDS
        + QUESTION_FIELDS
        + [("value", REAL), ("low", REAL), ("high", REAL), ("std_err", REAL), ("n", COUNT), ("threshold", REAL)]
        + [("status", TEXT), ("reason", TEXT), ("best", FLAG), ("tied_with_best", FLAG), ("chosen", TEXT)]
    ),
    # First minus second; p_against_best is Holm-adjusted within the column and empty for pairs without the best.
    # Decisions "per-layer": per-layer thresholds less the shared one of the same entry, a family of tests of its own.
    "pairs": pa.schema(
        CACHE_FIELDS
        + QUESTION_FIELDS
        + [("signal_a", TEXT), ("parameters_a", TEXT), ("signal_b", TEXT), ("parameters_b", TEXT)]
        + [("difference", REAL), ("low", REAL), ("high", REAL), ("std_err", REAL), ("n", COUNT)]
        + [("p_value", REAL), ("p_adjusted", REAL), ("p_against_best", REAL), ("status", TEXT), ("reason", TEXT)]
    ),
    # kind "point": an operating point, thinned to 1/2000 of cost in-sample, at fixed costs under protocols that have no
    # threshold axis (rates and exits are null there); "band": the bootstrap's interval at a fixed relative cost.
    # A grid's curve has at each cost the parameters chosen there, no thresholds unless they are the same throughout.
    # Only a suite's entry as a whole and the bounds "random" and "fixed" have curves; exits[m - 1] samples exit at m.
    "curves": pa.schema(
        CACHE_FIELDS
        + SIGNAL_FIELDS
        + [("kind", TEXT), ("threshold", REAL), ("cost", REAL), ("speed_up", REAL), ("score", REAL)]
        + [("low", REAL), ("high", REAL), ("premature_all", REAL), ("delayed_all", REAL)]
        + [("premature_reached", REAL), ("delayed_reached", REAL), ("exits", pa.list_(pa.int32()))]
    ),
    # Samples at the operating points of speed-ups and losses, for a suite's entries as a whole; group is null where a
    # cache has no groups.
    "samples": pa.schema(
        CACHE_FIELDS
        + SIGNAL_FIELDS
        + [("operating_point", TEXT), ("id", COUNT), ("group", COUNT), ("exit_layer", LAYER)]
        + [("prediction", LAYER), ("label", LAYER), ("right", FLAG)]
    ),
    # kind "exits": how many samples exit at a layer; "scores": how many scores of a layer lie in [low, high).
    "histograms": pa.schema(
        CACHE_FIELDS
        + SIGNAL_FIELDS
        + [("kind", TEXT), ("operating_point", TEXT), ("layer", LAYER), ("low", REAL), ("high", REAL)]
        + [("right", COUNT), ("wrong", COUNT), ("count", COUNT)]
    ),
    # Coverage as a share (0..1), risk in points; thinned to at most 200 coverages, at the suite's layers.
    "risk_coverage": pa.schema(CACHE_FIELDS + SIGNAL_FIELDS + [("layer", LAYER), ("coverage", REAL), ("risk", REAL)]),
}
"""The parquet files of a run and their columns."""


ACROSS = pa.schema(
    CACHE_FIELDS[1:2]
    + CACHE_FIELDS[3:]
    + [("statistic", TEXT), ("operating_point", TEXT), ("measure", TEXT)]
    + [("signal_a", TEXT), ("parameters_a", TEXT), ("signal_b", TEXT), ("parameters_b", TEXT)]
    + [("level", REAL), ("value", REAL), ("low", REAL), ("high", REAL), ("tasks", COUNT), ("networks", COUNT)]
)
"""The columns of ``across.parquet``, statistics over tasks and networks, made by ``run.across_caches.across_rows``.

``statistic``: ``average_rank`` (with half the critical difference on either side), ``critical_difference``,
``friedman_p``; of scores normalised between random exits (0) and the oracle (1) ``interquartile_mean``, ``profile``
(the share of runs above ``level``) and ``improvement`` (the chance that the first beats the second); ``better``,
``same`` and ``worse`` by more than ``level`` points; ``variance_rows``, ``variance_networks`` and ``variance_tasks`` in
squared points. ``tasks`` counts tasks, ``networks`` the fewest networks that share a set of rows. It is no part of the
key of a run: an empty or a missing file says that there was too little to compare.
"""

ACROSS_KEY = (
    "model",
    "split",
    "protocol",
    "statistic",
    "operating_point",
    "measure",
    "signal_a",
    "parameters_a",
    "signal_b",
    "parameters_b",
    "level",
)
"""What makes a row of ``across.parquet`` unique."""


class Row(NamedTuple):
    """One number of ``results.parquet``; the fields are its columns."""

    cache: str
    model: str
    task: str
    split: str
    protocol: str
    signal: str
    parameters: str
    measure: str
    operating_point: OperatingPoint = NOWHERE
    layer: int | None = None
    decisions: str = ""
    value: float = float("nan")
    low: float = float("nan")
    high: float = float("nan")
    std_err: float = float("nan")
    n: int = 0
    threshold: float | None = None
    status: str = "ok"
    reason: str = ""
    best: bool | None = None
    tied_with_best: bool | None = None
    chosen: str | None = None

    @property
    def key(self) -> tuple[Any, ...]:
        return _key_of(self)


_key_of = operator.attrgetter(*KEY)


def rows_table(rows: Iterable[Row]) -> pa.Table:
    """Rows as a table of ``results.parquet``; a NaN stays NaN, an absent threshold or flag is null."""
    columns: dict[str, Sequence[Any]] = dict(zip(Row._fields, zip(*rows, strict=True), strict=False))
    columns = {name: columns.get(name, ()) for name in SCHEMAS["results"].names}
    columns["operating_point"] = [point.text for point in columns["operating_point"]]
    return pa.table(columns, schema=SCHEMAS["results"])


def rows_of(table: pa.Table) -> list[Row]:
    """A table of ``results.parquet`` as rows, an absent layer, threshold or flag as ``None``."""
    columns = []
    for name in Row._fields:
        column = table[name]
        plain = column.null_count == 0 and not pa.types.is_string(column.type)
        values = column.to_numpy().tolist() if plain else plain_values(column)  # the former is far quicker
        columns.append(map(operating_point, values) if name == "operating_point" else values)
    return list(itertools.starmap(Row, zip(*columns, strict=True)))


def plain_values(column: pa.ChunkedArray) -> list[Any]:
    """The values of a column; equal texts are one object, since those of millions of rows would fill the memory."""
    if not pa.types.is_string(column.type):
        values: list[Any] = column.to_pylist()
        return values
    encoded = column.dictionary_encode().unify_dictionaries().combine_chunks()
    if not len(encoded):
        return []
    words = encoded.dictionary.to_pylist()
    return [None if number is None else words[number] for number in encoded.indices.to_pylist()]


def table_of(name: str, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
    """Plain rows as a table of the named file, columns in their documented order."""
    return pa.Table.from_pylist(list(rows), schema=SCHEMAS[name])


def columns_table(name: str, columns: Mapping[str, Any], length: int) -> pa.Table:
    """Columns as a table of the named file; a single value is repeated ``length`` times."""
    schema = SCHEMAS[name]
    filled = {}
    for spec in schema:
        value = columns.get(spec.name)
        if value is None or isinstance(value, (str, int, float, bool)):
            filled[spec.name] = pa.repeat(pa.scalar(value, type=spec.type), length)
        else:
            filled[spec.name] = pa.array(value, type=spec.type)
    return pa.table(filled, schema=schema)


PAIR_KEY = (
    "cache",
    "model",
    "task",
    "split",
    "protocol",
    "operating_point",
    "layer",
    "decisions",
    "measure",
    "signal_a",
    "parameters_a",
    "signal_b",
    "parameters_b",
)
"""What makes a row of ``pairs.parquet`` unique."""
