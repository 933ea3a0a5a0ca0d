"""A first try of signals on a few rows, so that one that crashes is known before the work begins."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from exitbench.benchmarks.scoring.calibration_layers import cannot_run, read_layer
from exitbench.benchmarks.scoring.score_cache import named
from exitbench.cache import Cache
from exitbench.signals.contract.layer import State
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.contract.stepping import validated_score

ROWS = 16


def try_signals(cache: Cache, signals: Sequence[ExitSignal]) -> None:
    """Score the first rows of a cache; raises the InputError of the first signal that fails.

    What must learn first, or cannot run on the cache, is passed over.
    """
    rows = slice(0, min(ROWS, cache.rows))
    for signal in signals:
        if signal.needs_fit or cannot_run(cache, signal):
            continue
        state: State = None
        try:
            with torch.no_grad():
                for index in range(1, cache.layers):
                    layer = read_layer(cache, index, rows, signal.inputs).only(signal.inputs)
                    block, state = signal.step(layer, state)
                    validated_score(signal, layer, block)
        except Exception as error:  # a plug-in may raise anything
            raise named(signal, error) from error
