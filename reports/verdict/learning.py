"""What learning was worth in a run, a line for each learned signal and model: for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from exitbench.benchmarks.results.operating_point import at_speed_up
from exitbench.benchmarks.results.vocabulary import FIT_SIZES, is_claimed
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.provenance import Name
from exitbench.reports.run_data.run_caches import CacheMetadata, Group, counted_tasks
from exitbench.reports.tables.learning import learned_entries, learned_gain_cell, reference_entry
from exitbench.reports.tables.pairs import both_ways, pairs_of
from exitbench.reports.tables.table import Cell
from exitbench.reports.tables.table_parts import learned_from_training


def learning_lines(run: FinishedRun) -> list[str]:
    """For each learned signal of each model: parameters, rows, and its gain near the primary speed-up."""
    lines = []
    for group in run.groups:
        protocol = run.leading_protocol(group.caches)
        own = replace(group, caches=tuple(cache for cache in group.caches if protocol in cache.protocols))
        for entry in learned_entries(run):
            name = (entry.signal, entry.parameters)
            line = learning_line(run, own, protocol, name)
            if line:
                lines.append(f"{entry.text} ({run.group_title(group)}): {line}")
    return lines


def learning_line(run: FinishedRun, group: Group, protocol: str, name: Name) -> str:
    """What one signal fitted and gained on the tasks of one model; empty where it was fitted on none of them."""
    caches = [cache for cache in group.caches if run.row(cache, protocol, *name, FIT_SIZES[1]) is not None]
    if not caches:
        return ""
    parameters, rows = (span_of(run, caches, protocol, name, measure) for measure in FIT_SIZES)
    point = at_speed_up(float(run.suite["primary_speed_up"]))
    reference = reference_entry(run)

    def gain(cache: str, measure: str) -> Cell:
        pairs = pairs_of(run, group, protocol, (cache, point, None, "", measure))
        return learned_gain_cell(both_ways(pairs), name, reference)

    gains = {cache.name: gain(cache.name, cache.measure) for cache in caches}
    text = f"{parameters} parameters fitted on {rows} rows"
    seen = sum(learned_from_training(run, cache, protocol, *name) for cache in caches)
    if seen:
        which = "" if seen == len(caches) else f", on {seen} of {counted_tasks(caches)}"
        text += f" that the network was trained on{which}"
    if reference is None:
        return text
    tested = [cell for cell in gains.values() if cell.numbers]
    against = f"against {run.label(reference.signal, reference.parameters)} near {point.short}"
    if not tested:
        return f"{text}; {against} not tested, it misses the speed-up"
    if len(group.caches) == 1:
        return f"{text}; {against} {gain_text(tested[0])} points"
    asked = [cache for cache in caches if gains[cache.name].numbers]
    better, worse = (sum(is_clear(cell, sign) for cell in tested) for sign in (1, -1))
    average = gain("", group.average_measure)
    mean = f"{gain_text(average)} points on average, " if average.numbers else ""
    return f"{text}; {against} {mean}better on {better}, worse on {worse} of {counted_tasks(asked)}"


def gain_text(cell: Cell) -> str:
    """A gain with its sign and its interval."""
    return f"{cell.text.partition(' (')[0]} {cell.interval}".strip()


def is_clear(cell: Cell, sign: int) -> bool:
    """Whether a gain (or, with the sign -1, a loss) is claimed."""
    gain, *p_value = cell.numbers
    return bool(p_value) and is_claimed(p_value[0].value) and sign * gain.value > 0


def span_of(run: FinishedRun, caches: Sequence[CacheMetadata], protocol: str, name: Name, measure: str) -> str:
    """A count over several caches, as one number or from the least to the most."""
    counts = [row.value for cache in caches if (row := run.row(cache, protocol, *name, measure)) is not None]
    low, high = f"{min(counts):.0f}", f"{max(counts):.0f}"
    return low if low == high else f"{low} to {high}"
