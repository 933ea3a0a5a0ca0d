"""What a reader must know before trusting a table: failures, gaps, thin data, points that count for nothing, ties."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from exitbench.benchmarks.results.operating_point import NOWHERE
from exitbench.benchmarks.results.schema import Row
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import task_with_model
from exitbench.reports.verdict.alert import Alert, few, first_few, grouped, layer_or_point, measure_and_layer, plural
from exitbench.reports.verdict.point_alerts import degenerate_alerts, loss_alerts, unmatched_alerts

FEW_ROWS = 300
"""Below this many samples, a difference of two points of accuracy drowns in chance."""
TIED_PERCENT = 5.0
"""A share of tied pairs from which a ranking is partly random."""


def alerts_of(run: FinishedRun) -> list[Alert]:
    """All alerts of a run, the gravest first."""
    alerts = [
        *failed_units(run.record),
        *missing_cells(run),
        *few_samples(run),
        *unreliable_alerts(shown_rows(run, status=("unreliable",)), run),
        *unmatched_alerts(shown_rows(run, status=("unmatched",)), run),
        *loss_alerts(list(shown_rows(run, measure=("realised_loss",))), run),
        *degenerate_alerts(shown_rows(run, status=("degenerate",)), run),
        *undefined_alerts(shown_rows(run, status=("undefined",)), run),
        *tie_alerts(shown_rows(run, measure=("tied_share",)), run),
        *identical_alerts(run),
        *only_in_sample(run),
        *run_notes(run.record),
    ]
    order = {"error": 0, "caution": 1, "note": 2}
    return sorted(alerts, key=lambda alert: order[alert.severity])


def shown_rows(run: FinishedRun, **wanted: Sequence[str]) -> Iterator[Row]:
    """The rows of compared entries that the tables show: at operating points, and measures at the suite's layers.

    Only those that have one of the ``wanted`` values in each of some columns.
    """
    entries = {(entry.signal, entry.parameters) for entry in run.entries}
    layers = {cache.name: cache.table_layers for cache in run.caches}
    for row in run.rows.where(**wanted):
        if not row.cache or (row.signal, row.parameters) not in entries or row.operating_point.kind in ("tau", "harm"):
            continue
        if row.layer is None or (row.operating_point == NOWHERE and row.layer in layers[row.cache]):
            yield row


def failed_units(record: Mapping[str, object]) -> list[Alert]:
    """Parts of the run that did not finish."""
    failures = record.get("failures")
    if not isinstance(failures, list) or not failures:
        if record.get("complete", True):
            return []
        return [Alert("error", "failed", "This run is not complete", "Start it again: it continues where it was left.")]
    places = tuple(few([f"{failure['label']}: {failure['reason']}" for failure in failures]))
    count = f"{len(failures)} parts of the run" if len(failures) > 1 else "One part of the run"
    meaning = "Their cells are missing below, and nothing was compared with them. Start the run again to try once more."
    return [Alert(severity="error", kind="failed", headline=f"{count} failed", meaning=meaning, places=places)]


def missing_cells(run: FinishedRun) -> list[Alert]:
    """Entries without any row where others have one."""
    present: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for name, protocol, signal, parameters in run.rows.distinct("cache", "protocol", "signal", "parameters"):
        present.setdefault((name, protocol), set()).add((signal, parameters))
    gaps: dict[str, list[str]] = {}
    for cache in run.caches:
        for protocol in cache.protocols:
            for entry in run.entries:
                name = (entry.signal, entry.parameters)
                if name not in present.get((cache.name, protocol), set()) and name not in cache.left_out:
                    label = run.label(entry.signal, entry.parameters)
                    gaps.setdefault(label, []).append(f"{task_with_model(run, cache)} ({protocol})")
    if not gaps:
        return []
    places = tuple(f"{label}: {first_few(where)}" for label, where in gaps.items())
    meaning = "Averages over tasks leave such a signal out, and it takes no part in comparisons there."
    return [
        Alert(
            severity="error",
            kind="missing",
            headline=f"{plural(len(gaps), 'signal')} without results on some task",
            meaning=meaning,
            places=places,
        )
    ]


def few_samples(run: FinishedRun) -> list[Alert]:
    """Caches too small for fine differences."""
    small = [cache for cache in run.caches if cache.rows < FEW_ROWS]
    if not small:
        return []
    places = tuple(few([f"{task_with_model(run, cache)}: {plural(cache.rows, 'row')}" for cache in small]))
    head = f"Few samples on {plural(len(small), 'task')}"
    meaning = f"Below {FEW_ROWS} rows, intervals are wide and little can be claimed."
    return [Alert(severity="caution", kind="few-samples", headline=head, meaning=meaning, places=places)]


def unreliable_alerts(shown: Iterable[Row], run: FinishedRun) -> list[Alert]:
    """Numbers whose interval cannot be trusted."""
    unreliable = [row for row in shown if row.status == "unreliable"]
    meaning = "Too few right or too few wrong predictions, or no spread at all: shown, but the interval means little."
    return grouped(
        "caution", "unreliable", "{} with an unreliable interval", meaning, unreliable, run, measure_and_layer
    )


def undefined_alerts(shown: Iterable[Row], run: FinishedRun) -> list[Alert]:
    """Cells without a number, where there is nothing to measure."""
    undefined = [row for row in shown if row.status == "undefined" and row.measure in ("dis", "accuracy", "f1")]
    meaning = "There is nothing to measure in these cells, such as a first layer that has no score yet."
    return grouped("note", "undefined", "{} undefined", meaning, undefined, run, layer_or_point)


def tie_alerts(shown: Iterable[Row], run: FinishedRun) -> list[Alert]:
    """Rankings with many equal scores."""
    tied = [
        row for row in shown if row.measure == "tied_share" and not math.isnan(row.value) and row.value >= TIED_PERCENT
    ]
    meaning = (
        f"At least {TIED_PERCENT:g} % of the pairs behind a DIS are tied and count one half each: "
        "part of that ranking is random."
    )
    return grouped("note", "ties", "{} with many ties", meaning, tied, run, lambda row: f"layer {row.layer}", "ranking")


def identical_alerts(run: FinishedRun) -> list[Alert]:
    """Signals that rank all samples alike, which two classes force on three of them."""
    if not run.identical:
        return []
    groups: dict[str, list[str]] = {}
    for twin in run.identical:
        members = ", ".join(run.label(*member) for member in twin.members)
        groups.setdefault(members, []).append(f"{task_with_model(run, twin.cache)} ({twin.protocol})")
    places = tuple(f"{members}: {first_few(where)}" for members, where in groups.items())
    meaning = (
        "With two classes, entropy, normalised entropy and the largest probability all follow the difference of the "
        "two logits: same ranking, same curve. Equal rows there are one signal under several names, not agreement "
        "between methods."
    )
    return [Alert(severity="note", kind="identical", headline="Identical signals", meaning=meaning, places=places)]


def only_in_sample(run: FinishedRun) -> list[Alert]:
    """A run whose choices were made on the samples it scores."""
    if list(run.suite["protocols"]) != ["in-sample"]:
        return []
    meaning = (
        "Thresholds and parameters were chosen on the very samples that are scored, "
        "which flatters signals with many parameters."
    )
    return [Alert("caution", "in-sample", "Only the in-sample protocol was run", meaning)]


def run_notes(record: Mapping[str, object]) -> list[Alert]:
    """What the runner left out."""
    notes = record.get("notes")
    if not isinstance(notes, list) or not notes:
        return []
    meaning = "What could never exit, or has no such thresholds, is not tried."
    return [
        Alert(
            severity="note",
            kind="notes",
            headline="Left out",
            meaning=meaning,
            places=tuple(few(list(map(str, notes)))),
        )
    ]
