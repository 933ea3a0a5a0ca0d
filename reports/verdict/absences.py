"""Who takes no part in a column, and why: the tasks on which a signal has no score that counts."""

from __future__ import annotations

import math

from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.verdict.alert import first_few
from exitbench.reports.verdict.standings import ColumnKey

MOST_TASKS = 3
"""As many tasks as a sentence names for one signal."""
MANY_CACHES = 24
"""Of an average over more caches it names one, and counts the others."""


def why_absent(run: FinishedRun, question: ColumnKey, entry: RunEntry) -> str:
    """Why an entry takes no part in a column of scores, such as ``1.96× on RTE``."""
    name, model, split, protocol, *_ = question
    if name:
        caches = [cache for cache in run.caches if cache.name == name]
    else:
        caches = [cache for cache in run.caches if (cache.model, cache.split) == (model, split)]
    measured = [cache for cache in caches if protocol in cache.protocols]
    reasons = [reason for cache in measured if (reason := reason_on(run, cache, question, entry))]
    if not reasons:
        return "parameters chosen on the scored rows" if protocol == "in-sample" and entry.is_grid else "not compared"
    return first_few(reasons, MOST_TASKS if len(measured) <= MANY_CACHES else 1)


def reason_on(run: FinishedRun, cache: CacheMetadata, question: ColumnKey, entry: RunEntry) -> str:
    """Why a score on one cache does not count; empty where it does."""
    protocol, point = question[3], question[4]
    names = (entry.signal, entry.parameters)
    task = run.task_title(cache)
    score = run.row(cache, protocol, *names, cache.measure, point)
    if score is None:
        return f"cannot run on {task}" if names in cache.left_out else f"no result on {task}"
    if score.status == "degenerate":
        return f"one exit layer for all on {task}"
    speed = run.row(cache, protocol, *names, "speed_up", point)
    if score.status == "unmatched" and speed is not None and not math.isnan(speed.value):
        return f"{speed.value:.2f}× on {task}"
    return "" if score.status == "ok" else f"{score.status} on {task}"
