"""Runs over many tiny caches: models x tasks x seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.executors.executor import Executor
from tests.support.page_runs import once, suite
from tests.support.seed_caches import seeds_of

SEEDS = 5
TWENTY = (
    "deebert",
    "deebert[normalize=true]",
    "right-tool",
    "pabee",
    "f-pabee[divergence=jsd,patience=1|2]",
    "f-pabee[divergence=mean-entropy,patience=1|2]",
    "f-pabee[divergence=kl,patience=1]",
    "f-pabee[divergence=reverse-kl,patience=1]",
    "pcee[patience=1|2]",
    "pcee[patience=1]",
    "e-lang",
    "e-lang[center=true]",
    "gen[gamma=0.1]",
    "gen[gamma=0.5]",
    "gini",
    "margin",
    "margin[probabilities=true]",
    "max-logit",
    "max-logit[center=true]",
    "random",
)
"""As many signals as the largest runs have; none of them learns."""


def many_caches(folder: Path, models: int, tasks: int) -> list[Path]:
    """A cache per model, task and seed; those of one task share their rows."""
    return [
        cache
        for model in range(models)
        for task in range(tasks)
        for cache in seeds_of(
            folder,
            SEEDS,
            rows=30,
            task=f"t{task}",
            model=f"m{model}",
            rows_seed=task,
            first_seed=1000 * model + 10 * task,
        )
    ]


def run_many(folder: Path, models: int, tasks: int, signals: Sequence[str], executor: Executor | None = None) -> Path:
    """A finished run over caches of ``models`` x ``tasks`` x five seeds, without a page."""
    caches = many_caches(folder, models, tasks)
    asked = {"protocols": ("in-sample",), "layers": (1,), "speed_ups": (1.5,), "resamples": 5, "losses": ()}
    at = {"primary_speed_up": 1.5, "rates_speed_up": 1.5}
    return run_suite(suite(caches, signals, **asked, **at), folder / "run", executor=executor).path


def many_run(factory: pytest.TempPathFactory, models: int, tasks: int) -> Path:
    """Such a run with two signals, made once."""

    def build(folder: Path) -> None:
        run_many(folder, models, tasks, ("deebert", "margin"))

    return once(factory, f"many-{models}-{tasks}", build) / "run"
