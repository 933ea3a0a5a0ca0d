"""Every signal on every derived cache: learned from derived rows and scored, or one line that says why not."""

from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.scoring.calibration_layers import cannot_run
from exitbench.benchmarks.scoring.score_cache import fitted, score_each
from exitbench.cache import Cache
from exitbench.derive.derive_cache import derive
from exitbench.derive.registry import load_methods
from exitbench.signals.contract.learned_signal import UntaughtError
from exitbench.signals.registry.discovery import load_registry

METHODS, REGISTRY = load_methods(), load_registry()
READ_HEADS = {"cap", "fdbd", "nsp", "residual", "vim"}
COMPARE_LAYERS = {"beem", "f-pabee", "pabee", "saturation"}
"""Signals that say nothing at the first layer, where there is no layer before it."""
CURVED = {
    "cascaded": "a cascaded head also reads the answer before it, so its answer is not linear in the features",
    "class-means": "a distance from a class mean is not linear in the features",
    "ensemble": "an ensemble's answer is a sum of log-probabilities, which is not linear in the features",
    "past-future": "a past-future exit mixes the states of all layers through a gate, which is not linear in the "
    "features",
}
"""The methods whose answers no head gives, and what their caches say about it."""
RESCALED = {"distilled", "temperature", "vector"}
"""Methods with heads like those of ``heads``, or the network's own times a scale: slow."""


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in RESCALED else name for name in sorted(METHODS.classes)],
)
def test_every_signal_runs_on_a_derived_cache_or_says_why_not(
    name: str, train: Cache, source: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EXITBENCH_FIT_CACHE", "off")
    calibration, dev = tmp_path / "calibration", tmp_path / "dev"
    derive(METHODS.make(name), train, train, calibration)
    derive(METHODS.make(name), train, source, dev)
    learned_from, cache = Cache(calibration), Cache(dev)
    ready, refused, untaught = [], {}, set()
    for key in sorted(REGISTRY.signals):
        signal = REGISTRY.make(key)
        if why := cannot_run(cache, signal):
            refused[key] = why
            continue
        try:
            ready.append(fitted(signal, learned_from) if signal.needs_fit else signal)
        except UntaughtError:
            untaught.add(key)
    assert untaught <= {"jei-gate"}, "which wants ten samples of each kind"
    assert set(refused) == {"output"} | (READ_HEADS if name in CURVED else set())
    for key in READ_HEADS & set(refused):
        what = "heads and offset norms" if key in {"cap", "nsp"} else "heads"
        assert refused[key] == f"signal {key} reads {what}, which cache dev does not hold ({CURVED[name]})"
    for signal, scores in zip(ready, score_each(cache, ready), strict=True):
        assert isinstance(scores, np.ndarray), f"{signal.text}: {scores}"
        silent = np.isnan(scores)
        assert silent[0].all() == (signal.name in COMPARE_LAYERS), signal.text
        assert not silent[1:].any(), signal.text
        assert len(np.unique(scores[1:])) > 1, f"{signal.text} says the same of all rows"
