"""The loop of somebody who writes a signal: a cold run to its verdict, a refusal, a save in ``watch``."""

from __future__ import annotations

import shutil
import statistics
import sys
from pathlib import Path

from exitbench.benchmarks.glance import glance
from exitbench.benchmarks.speed.harness.ratios import Child, Measured, Ratio, child, in_turn, seconds
from exitbench.benchmarks.speed.harness.rows import Record, SpeedRow, Topic
from exitbench.cache import Cache
from exitbench.places import FIXTURES
from exitbench.signals.registry.discovery import load_registry

CACHE, SIGNALS = "mpnet-base-rte-dev", "deebert,cap"
ROUNDS = 5
VERDICT = SpeedRow(
    "loop-verdict", f"`run {CACHE} --signals {SIGNALS}` to its verdict / `python -c 'import torch'`", "lower", goal=2.0
)
PAGE = SpeedRow("loop-page", "the same with its page and tables / to its verdict", "lower", goal=2.0)
REFUSAL = SpeedRow("loop-refusal", "a mistyped signal refused by `run` / `exitbench --help`", "lower", goal=1.5)
FLAG = SpeedRow("loop-flag", "a mistyped option refused by `run` / `exitbench --help`", "lower", goal=1.5)
SAVE = SpeedRow("loop-save", f"a saved signal to its row in `watch {CACHE}` / a cold `run` of it", "lower", goal=0.1)
TOPIC = Topic(
    "The loop",
    f"""
Processor time of processes of their own, {ROUNDS} times in turn, the interpreter's start included. A run imports what
it needs when it needs it: pandas not before a frame is asked for, `scipy.stats` not for a binomial tail, nothing that
draws; for little work no second process is started. A wrong name is found in the text of the signals' files, without
torch. `watch` keeps caches and rivals, so that a save costs one signal's scores and points.
""",
    (VERDICT, PAGE, REFUSAL, FLAG, SAVE),
)


def test_the_loop_takes_a_breath(tmp_path: Path, record_ratios: Record) -> None:
    program = [sys.executable, "-m", "exitbench"]

    def run(*options: str) -> Child:
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        return child([*program, "run", CACHE, "--signals", SIGNALS, "--out", str(tmp_path / "out"), *options])

    def refused(*words: str) -> float:
        return child([*program, "run", CACHE, *words], expected=2).processor

    def compare() -> dict[SpeedRow, Measured]:
        run()
        torch, verdict, page = [], [], []
        for _ in range(ROUNDS):
            torch.append(child([sys.executable, "-c", "import torch"]).processor)
            verdict.append(run("--no-report").processor)
            page.append(run().processor)
        cold = statistics.median(verdict)
        help_page = [*program, "--help"]
        signal = load_registry().make("margin")
        cache = Cache(FIXTURES / "caches" / CACHE)
        glance(cache, [signal])
        save = statistics.median(seconds(lambda: glance(cache, [signal])) for _ in range(ROUNDS))
        return {
            VERDICT: Ratio(cold, statistics.median(torch)).measured(),
            PAGE: Ratio(statistics.median(page), cold).measured(),
            REFUSAL: in_turn(
                lambda: refused("--signals", "deebrt"), lambda: child(help_page).processor, ROUNDS
            ).measured(),
            FLAG: in_turn(lambda: refused("--signls", "cap"), lambda: child(help_page).processor, ROUNDS).measured(),
            SAVE: Ratio(save, cold).measured(),
        }

    record_ratios(compare)
