"""A whole ``exitbench run`` on the committed fixtures: numbers against figures, two processes against one."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.scoring import fit_cache
from exitbench.benchmarks.speed.harness.ratios import Child, Measured, Ratio, child, seconds
from exitbench.benchmarks.speed.harness.rows import Record, RecordOne, SpeedRow, Topic
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.signals.registry.discovery import load_registry

SUITE, ROUNDS = "paper", 2
NEEDS_AN_OUTPUT = ("output",)
"""Signals that read what none of the committed caches holds."""

NUMBERS = SpeedRow(
    "run-numbers",
    "all numbers of `exitbench run` / drawing all its figures",
    "lower",
    goal=1.0,
    limit="""
The numbers are thousands of single points and, for about half of the time, resamples, which cross-fitting repeats
for every fold and every value of a grid. What helped: running sums over whole rows in blocks instead of `cumsum` down
the columns (5 ms to 0.7 ms for 888 points and 1000 resamples), halving in all resamples at once instead of one search
in a transposed copy (12 ms to 5 ms), flat `take` instead of two-index gathering (4 times), percentiles without
`np.quantile`'s checks (10 times); then weights and sums that all signals of a cache share made once, the curve of a
fold cut out of the sorted whole, one sparse product for all sums, and intervals and differences of many points at
once (together 39.7 to 27.4 processor seconds on seven caches, means of four runs in turn); then
sums added row to row, which passes over memory once, and the halving in 250 resamples at a time, whose sums
stay near the processor (all resampled choices of two configurations 318 to 373 ms before and 232 to 257 ms
after, three rounds in turn on a busy machine). What did not: larger malloc thresholds, masked additions in the
halving, a search per resample, scipy's sparse kernel on a reused buffer, no search for garbage, and everything
in 250 resamples at a time.
The figures they are compared with were made faster, too, by a quarter: titles and empty labels are placed
without measuring ticks, and PNGs compressed less.
""",
)
JOBS = SpeedRow(
    "run-jobs",
    "`exitbench run --jobs 1` / `--jobs 2`, by the clock",
    "higher",
    goal=1.5,
    margin=0.25,
    limit="""
What does not divide: the first process reads the suite and scores, averages, renders the page at the end, and a stage
waits for its last unit; every process imports for itself, three times the imports of one. What helped: the same workers
for numbers and figures, started before the first process imports anything heavy; no torch in the workers, since few
bytes are scored where it is loaded already; result files joined by the workers; and everything but the figures made
while they are drawn. Workers copied from a loaded process would import nothing, but with them a worker of the tests
hung. On a machine whose two cores are two threads of one, two busy processes together do less than twice the work of
one, whatever the program.
""",
)
ALL = SpeedRow(
    "run-all-signals",
    "numbers of a run over all signals / over the eight published ones, fits from the fit cache",
    "lower",
    goal=2.0,
    limit="""
What grows is not the number of signals but that of their pairs, which every column of every task tests. Fits and what
they say of the rows that they have not seen come from the fit cache.
""",
)
TOPIC = Topic(
    "A whole run",
    f"""
The {SUITE} suite on the caches that come with the clone: results, main tables and page, each run a process of
its own, {ROUNDS} rounds in turn (a run takes about a minute, long enough to average the machine's moods).
*Numbers* are everything up to the result files: scores, measures, 1000 resamples, paired tests, under two
protocols. Their processor time and that of the figures come from the runs with one job. By the clock, start and
imports of every process count too. *All signals* are those of the registry with their default parameters beside the
suite's entries, but for those that need an extra output of the network; a first run, which is not timed, fills the
fit cache.

The default run, suite `published`, asks what the default run of the commit c8cf444 asked: eight published signals with
their grids on eight caches, two protocols, intervals; with 500 resamples instead of 1000, and without the 270 tables
and 60 figures that nobody had asked for. Side by side with that commit, each run a cold process in a new folder, in
turn, with two processes of a high priority beside a training and other work, it took 14.4 to 15.0 s by the clock where
that took 31.7 to 32.5 s: 0.46 times, in each of four rounds (0.44 to 0.51 in five earlier ones), and 0.43 times the
processor time (16.6 s and 38.2 s). With nothing else running it took 10.3 and 10.5 s where that took 21.3 and 20.8 s:
0.49 times; with 1000 resamples 12.5 s, 0.60 times (one round). What helped last: result tables flushed and units
removed together, workers and charts without pandas, and a search for cyclic garbage a hundredth as often (0.3 s of a
report's 2.6 s).

The suite `paper` has grown from the 21 configurations of that commit to 36 (both forms of F-PABEE, centred forms, and
three entries that learn), with nested folds, five deals, choices for each speed-up, promises and calibration. Cold fits
included it took 57.5 s beside the runs above: 3.9 times the default run, 1.8 times the old one.

What limits the suite `paper`: on two processes, 6% of the clock are starts and scores, 63% measures, 12% comparisons,
9% joining and averaging, 9% the page, the last two by one process. Measures are 36 configurations on eight caches, each
with six choices on 1000 resamples and 20 exact ones of further deals; no function takes more than a twelfth of the
whole. Of the resampled choices a quarter each are sums at all points and the search for 51 costs in every resample; a
fifth to a quarter does not depend on the number of resamples.
""",
    (NUMBERS, JOBS, ALL),
)


@pytest.mark.skipif((os.cpu_count() or 1) < 2, reason="two jobs need two cores")
def test_numbers_take_no_longer_than_figures_and_two_jobs_share_the_work(tmp_path: Path, record_ratios: Record) -> None:
    seen = tmp_path / "seen.json"

    def watched(*words: str) -> Child:
        return child([sys.executable, "-m", "exitbench.benchmarks.speed.harness.watched", str(seen), *words])

    def run(jobs: int) -> Child:
        out = tmp_path / f"run-{jobs}"
        shutil.rmtree(out, ignore_errors=True)
        return watched("run", SUITE, "--jobs", str(jobs), "--out", str(out))

    def draw() -> Child:
        formats = ("--format", "svg", "--format", "png")
        return watched("figure", str(tmp_path / "run-1"), "--all", *formats, "--jobs", "1")

    def compare() -> dict[SpeedRow, Measured]:
        numbers, figures = [], []
        walls: dict[int, list[float]] = {1: [], 2: []}
        for turn in range(ROUNDS):
            for jobs in ((1, 2), (2, 1))[turn % 2]:
                walls[jobs].append(run(jobs).wall)
                if jobs == 1:
                    numbers.append(json.loads(seen.read_text())["numbers_seconds"])
                    draw()
                    figures.append(json.loads(seen.read_text())["figures_seconds"])
        clock = Ratio(statistics.median(walls[1]), statistics.median(walls[2]))
        stages = Ratio(statistics.median(numbers), statistics.median(figures))
        return {NUMBERS: stages.measured(), JOBS: clock.measured(f"{os.cpu_count()} cores")}

    record_ratios(compare)


def every_signal(published: Sequence[str]) -> list[str]:
    """The entries of the eight, then every other signal of the registry with its defaults."""
    named = {entry.partition("[")[0] for entry in published}
    return [*published, *(name for name in sorted(load_registry().signals) if name not in {*named, *NEEDS_AN_OUTPUT})]


def test_all_signals_take_at_most_twice_the_time_of_the_eight(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, record_ratio: RecordOne
) -> None:
    monkeypatch.setenv(fit_cache.VARIABLE, str(tmp_path / "fits"))
    suite = load_suite(SUITE)
    learned = {name for name, signal in load_registry().signals.items() if signal().needs_fit}
    published = [entry for entry in suite.signals if entry.partition("[")[0] not in learned]
    every = every_signal(published)

    def numbers(signals: Sequence[str]) -> float:
        out = tmp_path / "run"
        shutil.rmtree(out, ignore_errors=True)
        return seconds(lambda: run_suite(suite.with_signals(tuple(signals)), out))

    def compare() -> Measured:
        numbers(every)  # fits
        return Ratio(numbers(every), numbers(published)).measured(f"{len(every)} entries, {len(published)} published")

    record_ratio(ALL, compare)
