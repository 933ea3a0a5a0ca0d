"""Real, very small runs for the tests of tables, figures and comparisons; each is made once."""

from __future__ import annotations

from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite import Contest
from exitbench.cache import synthetic_cache
from tests.support.page_runs import once, suite
from tests.support.seed_caches import seeds_of

GRID = "cap[alpha=0.1|1]"
ONE = {"protocols": ("in-sample",), "speed_ups": (2.0,), "layers": (1, 2)}


def small_run(factory: pytest.TempPathFactory) -> Path:
    """One task, three signals, one protocol: as many figures as it takes to have one of each kind."""

    def build(folder: Path) -> None:
        cache = synthetic_cache(folder / "cache", rows=90, layers=4, width=8, task="sst2", seed=4)
        run_suite(
            suite([cache], ["deebert", "pabee", GRID], **ONE), folder / "run", arguments=["exitbench", "run", "cache"]
        )

    return once(factory, "small", build) / "run"


def contested_run(factory: pytest.TempPathFactory) -> Path:
    """Two signals on one small task, and a suite that asks for findings: as few figures as a run can have."""

    def build(folder: Path) -> None:
        cache = synthetic_cache(folder / "cache", rows=60, layers=3, width=8, task="sst2", seed=4)
        asked = suite([cache], ["cap", "deebert"], **{**ONE, "layers": (1,)}, findings=Contest("cap", ("deebert",)))
        run_suite(asked, folder / "run")

    return once(factory, "contested", build) / "run"


def other_run(factory: pytest.TempPathFactory) -> Path:
    """The small run's cache with another grid, another signal and one signal less."""
    cache = small_run(factory).parent / "cache"

    def build(folder: Path) -> None:
        run_suite(suite([cache], ["deebert", "nsp", "cap[alpha=10]"], **ONE), folder / "run")

    return once(factory, "other", build) / "run"


def three_rows(factory: pytest.TempPathFactory) -> Path:
    """Three samples, one signal, one internal layer."""

    def build(folder: Path) -> None:
        cache = synthetic_cache(folder / "cache", rows=3, layers=2, width=8, task="sst2", seed=4)
        run_suite(suite([cache], ["deebert"], **{**ONE, "layers": (1,)}), folder / "run")

    return once(factory, "three", build) / "run"


def sixty_signals(factory: pytest.TempPathFactory) -> Path:
    """Sixty entries that share a title."""

    def build(folder: Path) -> None:
        cache = synthetic_cache(folder / "cache", rows=40, layers=3, width=8, seed=4)
        entries = [f"cap[alpha={number / 10:g}]" for number in range(1, 61)]
        run_suite(suite([cache], entries, **{**ONE, "resamples": 5}), folder / "run")

    return once(factory, "sixty", build) / "run"


def two_forms(factory: pytest.TempPathFactory) -> Path:
    """Both forms of F-PABEE, each with a grid, on a network as deep as the published one; and two other signals."""

    def build(folder: Path) -> None:
        cache = synthetic_cache(folder / "cache", rows=120, layers=12, width=8, task="sst2", seed=6)
        forms = [f"f-pabee[divergence={form},patience=1|2]" for form in ("jsd", "mean-entropy")]
        asked = {**ONE, "layers": (2, 6, 10), "resamples": 20, "findings": Contest("cap", ("deebert",))}
        run_suite(suite([cache], ["deebert", *forms, "cap"], **asked), folder / "run")

    return once(factory, "two-forms", build) / "run"


def per_layer_run(factory: pytest.TempPathFactory) -> Path:
    """Two tasks with per-layer thresholds beside the shared ones, and a signal that has none."""

    def build(folder: Path) -> None:
        caches = [
            synthetic_cache(folder / task, rows=400, layers=5, width=8, task=task, seed=seed)
            for seed, task in enumerate(("sst2", "mrpc"))
        ]
        asked = {"protocols": ("in-sample", "cross-fit"), "speed_ups": (1.5,), "primary_speed_up": 1.5, "layers": (1,)}
        made = suite(caches, ["deebert", "pabee", GRID], **asked, thresholds={"*": ("per-layer",)})
        run_suite(made, folder / "run")

    return once(factory, "per-layer", build) / "run"


def learned_run(factory: pytest.TempPathFactory) -> Path:
    """Two tasks with a signal that learns, the plain one it has to beat, and one that needs what no cache holds."""

    def build(folder: Path) -> None:
        caches = [
            synthetic_cache(folder / task, rows=300, layers=4, width=8, task=task, seed=seed, compact=True)
            for seed, task in enumerate(("sst2", "mrpc"))
        ]
        asked = {"protocols": ("cross-fit",), "speed_ups": (1.5,), "primary_speed_up": 1.5, "layers": (1, 2)}
        entries = ["right-tool", "meta", "right-tool[temperature=fitted]", "berxit"]
        run_suite(suite(caches, entries, **asked), folder / "run")

    return once(factory, "learned", build) / "run"


def across_run(factory: pytest.TempPathFactory) -> Path:
    """Three signals and a grid on six tasks with five networks each: what statistics across both need."""

    def build(folder: Path) -> None:
        caches = [
            cache
            for number, task in enumerate("tuvwxy")
            for cache in seeds_of(folder, 5, rows=60 + 7 * number, task=task)
        ]
        asked = suite(
            caches, ["e-lang", "deebert", "e-lang[temperature=2|4]", "margin"], **{**ONE, "speed_ups": (1.5,)}
        )
        run_suite(asked.asking(primary_speed_up=1.5, resamples=40, losses=()), folder / "run")

    return once(factory, "across", build) / "run"
