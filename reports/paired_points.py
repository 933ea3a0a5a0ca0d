"""Operating points of two runs in pairs, sample by sample.

McNemar's exact test on the answers that are right in one run only, and a sign test on the exit layers; where
a cache has groups, both turn whole groups around. P-values are adjusted together by Holm's method. The difference of
the task scores has a normal interval from the influence of each sample, groups taken together.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pandas as pd

from exitbench.benchmarks.results.operating_point import OperatingPoint, operating_point
from exitbench.benchmarks.scoring.groups import summed_by_group
from exitbench.benchmarks.statistics.delong import normal_difference
from exitbench.benchmarks.statistics.multiple_comparisons import holm
from exitbench.benchmarks.statistics.paired_signs import sign_test
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.run_caches import CacheMetadata
from exitbench.reports.run_data.run_entry import RunEntry
from exitbench.reports.several_runs.stored_answers import answers_in


@dataclass(frozen=True)
class Paired:
    """One operating point of two signals, or of one in both runs, sample by sample; signals as the suites write them.

    ``difference`` is the task score of the second less that of the first, with its 95% interval, on the stored answers.
    """

    cache: str
    protocol: str
    signal_a: str
    signal_b: str
    point: OperatingPoint
    samples: int
    accuracy_a: float
    accuracy_b: float
    speed_up_a: float
    speed_up_b: float
    only_a_right: int
    only_b_right: int
    earlier_in_a: int
    earlier_in_b: int
    p_right: float
    p_exit: float
    measure: str
    score_a: float
    score_b: float
    difference: float
    low: float
    high: float
    p_right_adjusted: float = math.nan
    p_exit_adjusted: float = math.nan

    @property
    def differs(self) -> bool:
        return bool(self.only_a_right or self.only_b_right or self.earlier_in_a or self.earlier_in_b)


def samples_by_point(run: FinishedRun) -> dict[tuple[Any, ...], pd.DataFrame]:
    """``samples.parquet`` by cache, protocol, signal, parameters and operating point, rows by their ids."""
    columns = ["cache", "protocol", "signal", "parameters", "operating_point"]
    frame = run.files.table("samples")
    return {key: part.sort_values("id") for key, part in frame.groupby(columns, sort=False) if isinstance(key, tuple)}


def paired_points(
    a: FinishedRun,
    b: FinishedRun,
    caches: list[CacheMetadata],
    protocols: list[str],
    entries: list[tuple[RunEntry, RunEntry]],
) -> Iterator[Paired]:
    """Every operating point that both runs have samples of."""
    samples_a, samples_b = samples_by_point(a), samples_by_point(b)
    points = [operating_point(text) for text in dict.fromkeys(key[4] for key in samples_a)]
    for cache in caches:
        for protocol in protocols:
            for first, second in entries:
                for point in points:
                    first_samples = samples_a.get((cache.name, protocol, first.signal, first.parameters, point.text))
                    second_samples = samples_b.get((cache.name, protocol, second.signal, second.parameters, point.text))
                    if first_samples is not None and second_samples is not None:
                        question = (cache.name, protocol, first.text, second.text, point)
                        yield paired(question, first_samples, second_samples, cache)


def paired(
    question: tuple[str, str, str, str, OperatingPoint], a: pd.DataFrame, b: pd.DataFrame, cache: CacheMetadata
) -> Paired:
    """One operating point in pairs; both frames in the order of their ids."""
    costs = np.array(cache.layer_costs)
    if not np.array_equal(a["id"].to_numpy(), b["id"].to_numpy()):
        raise InputError(f"the runs hold different samples of {question[0]} at {question[-1]}")
    right_a, right_b = a["right"].to_numpy(dtype=bool), b["right"].to_numpy(dtype=bool)
    exit_a, exit_b = a["exit_layer"].to_numpy(), b["exit_layer"].to_numpy()
    groups = None if a["group"].isna().any() else a["group"].to_numpy(dtype=np.int64)
    first, second = (answers_in(frame) for frame in (a, b))
    moved = summed_by_group(second.influence(cache.measure) - first.influence(cache.measure), groups)
    scores = [answers.score(cache.measure) for answers in (first, second)]
    test = normal_difference(scores[1] - scores[0], float(np.linalg.norm(moved)))
    better, earlier = right_a.astype(np.int64) - right_b, np.sign(exit_b - exit_a).astype(np.int64)
    return Paired(
        *question,
        len(a),
        100 * float(right_a.mean()),
        100 * float(right_b.mean()),
        float(costs[-1] / costs[exit_a - 1].mean()),
        float(costs[-1] / costs[exit_b - 1].mean()),
        int((better > 0).sum()),
        int((better < 0).sum()),
        int((earlier > 0).sum()),
        int((earlier < 0).sum()),
        sign_test(better, groups),
        sign_test(earlier, groups),
        measure=cache.measure,
        score_a=scores[0],
        score_b=scores[1],
        difference=test.value,
        low=test.low,
        high=test.high,
    )


def adjusted(paired: list[Paired]) -> list[Paired]:
    """The pairs with p-values adjusted over all of them, answers and exits apart."""
    right, exits = holm([pair.p_right for pair in paired]), holm([pair.p_exit for pair in paired])
    return [
        Paired(**{**asdict(pair), "p_right_adjusted": float(p), "p_exit_adjusted": float(q)})
        for pair, p, q in zip(paired, right, exits, strict=True)
    ]
