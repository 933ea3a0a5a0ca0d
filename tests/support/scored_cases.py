"""Scored caches made of arrays, without a network and without torch."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from exitbench.benchmarks.scoring.configuration import Configuration
from exitbench.benchmarks.scoring.score_store import (
    PLAIN,
    Samples,
    ScoredCache,
    ScoreFiles,
    ScoresKey,
    load_scored_cache,
    save_scored_cache,
)


def configuration(name: str = "made-up", parameters: str = "", **changes) -> Configuration:
    facts = {
        "signal": name,
        "title": name,
        "parameters": parameters,
        "text": f"{name}[{parameters}]",
        "changed": 1,
        "direction": ">=",
        "first_exit_layer": 1,
        "first_scored_layer": 1,
        "integers": None,
        "learns": False,
    }
    return Configuration(**{**facts, **changes})


def random_arrays(seed: int, samples: int, depth: int, configurations: int, *, ties: bool = False):
    """Labels, predictions that get better with depth, and scores that know something about them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 2, samples)
    right = rng.random((depth, samples)) < np.linspace(0.6, 0.9, depth)[:, None]
    predictions = np.where(right, labels, 1 - labels)
    scores = [right[:-1] * rng.uniform(0.2, 1.0) + rng.normal(size=(depth - 1, samples)) for _ in range(configurations)]
    if ties:
        scores = [np.round(array * 2) for array in scores]
    return labels, predictions, scores


def scored_cache(
    folder: Path, labels, predictions, scores, configurations, *, ids=None, metric="accuracy", calibration=None
) -> ScoredCache:
    """A scored cache as files; ``calibration`` is (labels, predictions, scores) of the other role."""
    folder.mkdir(parents=True, exist_ok=True)
    roles = {"test": (labels, predictions, scores)} | ({} if calibration is None else {"calibration": calibration})
    store = ScoreFiles(folder)
    samples = {}
    for role, (truth, answers, values) in roles.items():
        own_ids = np.arange(len(truth)) if ids is None or role == "calibration" else ids
        samples[role] = Samples(own_ids, truth, answers, metric)
        for number, matrix in enumerate(values):
            store[ScoresKey(number, PLAIN, role)] = matrix
    scored = ScoredCache("c", "m", "t", "dev", metric, tuple(configurations), samples, store)
    save_scored_cache(folder, scored)
    return load_scored_cache(folder)
