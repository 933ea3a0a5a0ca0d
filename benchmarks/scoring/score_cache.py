"""Scores of signals over a cache: one pass for all signals, one score per sample and internal layer.

The cache is read in row blocks, layers in order, and what a layer holds is read once for all signals
and only when one of them declares it. A signal sees what it declared and nothing else, so that a
missing declaration shows here and not in a live service.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.benchmarks.arrays.roomy_array import empty
from exitbench.benchmarks.scoring.calibration_layers import CalibrationLayers, check_inputs, read_layer
from exitbench.benchmarks.scoring.fit_cache import remembered
from exitbench.benchmarks.scoring.raw_memory import memory_watched
from exitbench.cache import Cache, Target
from exitbench.errors import InputError, did_you_mean
from exitbench.places import cache_directories
from exitbench.progress import ProgressBar
from exitbench.signals.contract.layer import Input, Layer, State
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.contract.stepping import validated_score
from exitbench.signals.contract.written_inputs import SharedInputs
from exitbench.signals.registry.discovery import load_registry

Scores = NDArray[np.float64]

BLOCK_ROWS, BLOCK_LOGITS = 8192, 1 << 20
"""The most samples that go through the layers together, and the most logits of theirs at a layer: what is derived from
a thousand classes then takes 8 MB at a time, which the allocator uses again. Larger blocks took twice as long."""


def score(
    cache: Cache | str | Path,
    signal: ExitSignal | str,
    *,
    fit_on: Cache | str | Path | None = None,
    target: Target | None = None,
) -> Scores:
    """The scores of one signal, [layers - 1, samples] float64; NaN where none is defined.

    A cache may be given by its path, or by its name if it came with the clone, and a signal by its text. A signal that
    learns is fitted on ``fit_on`` first, towards the ``target`` (by default that cache's own).
    Raises InputError when the cache lacks what the signal reads, when the signal's scores are not what the
    contract asks for, or when it raises anything itself.
    """
    made = load_registry().make(signal) if isinstance(signal, str) else signal
    return score_all(opened(cache), [made], fit_on=None if fit_on is None else opened(fit_on), target=target)[0]


def opened(cache: Cache | str | Path) -> Cache:
    """The cache itself, the one of the clone that a text names, or the one at a path.

    A bare word that names a cache of the clone is that, whatever lies in the current folder, as on the command line.
    """
    if isinstance(cache, Cache):
        return cache
    known = {path.name: path for path in cache_directories()} if isinstance(cache, str) else {}
    if known and cache not in known and not Path(cache).exists():
        raise InputError(f"{str(cache)!r} is no cache.{did_you_mean(str(cache), known)}")
    return Cache(known.get(str(cache), Path(cache)))


def score_all(
    cache: Cache, signals: Sequence[ExitSignal], *, fit_on: Cache | None = None, target: Target | None = None
) -> list[Scores]:
    """The scores of several signals in one pass over the cache, each as from :func:`score`."""
    ready = [
        fitted(signal, fit_on, target=target) if signal.needs_fit and fit_on is not None else signal
        for signal in signals
    ]
    outcomes = score_each(cache, ready)
    for outcome in outcomes:
        if isinstance(outcome, InputError):
            raise outcome
    return [outcome for outcome in outcomes if not isinstance(outcome, InputError)]


def score_each(
    cache: Cache, signals: Sequence[ExitSignal], wanted: NDArray[np.bool_] | None = None
) -> list[Scores | InputError]:
    """Like :func:`score_all`, but a signal that fails gives its error, and the others their scores.

    A signal that writes into what it is given fails, and the others are scored without it. ``wanted`` [samples] says
    which samples are scored, in the cache's order; by default all of them.
    """
    chosen = np.ones(cache.rows, dtype=bool) if wanted is None else wanted
    outcomes: list[Scores | InputError] = []
    for signal in signals:
        try:
            if signal.needs_fit:
                raise InputError(f"signal {signal.text} learns, so it needs samples to be fitted on (fit_on)")
            check_inputs(cache, signal)
            outcomes.append(empty((cache.layers - 1, int(chosen.sum())), np.float64))
        except InputError as error:
            outcomes.append(error)
    together = scored_positions(outcomes)
    try:
        with torch.no_grad():  # not inference mode, where writes are not counted
            score_blocks(cache, signals, outcomes, chosen)
    except WrittenInputError as error:
        cache.read_heads_again()
        for position in together:
            # Whose write it was shows when each signal has everything to itself.
            signal = signals[position]
            outcomes[position] = error.by(signal) if len(together) == 1 else score_each(cache, [signal], wanted)[0]
    return outcomes


class WrittenInputError(Exception):
    """Some signal wrote into what all signals are given."""

    def __init__(self, tensor: str, index: int) -> None:
        super().__init__(tensor, index)
        self.tensor, self.index = tensor, index

    def by(self, signal: ExitSignal) -> InputError:
        """The error of the signal that did it."""
        return InputError(
            f"signal {signal.text} at layer {self.index} wrote into {self.tensor}, which it may only read"
        )


def scored_positions(outcomes: Sequence[Scores | InputError]) -> list[int]:
    """The positions of the signals that have not failed."""
    return [position for position, outcome in enumerate(outcomes) if isinstance(outcome, np.ndarray)]


def score_blocks(
    cache: Cache, signals: Sequence[ExitSignal], outcomes: list[Scores | InputError], chosen: NDArray[np.bool_]
) -> None:
    """Fill the scores of the chosen samples in ``outcomes`` block by block, or put a signal's error in their place."""
    shared = SharedInputs()
    with memory_watched(shared.copy_new):
        for rows in cache.blocks(max(min(BLOCK_ROWS, BLOCK_LOGITS // cache.classes), 1)):
            numbers = (rows.start + np.flatnonzero(chosen[rows])).tolist()
            if not numbers:
                continue
            first = int(chosen[: rows.start].sum())
            filled = slice(first, first + len(numbers))
            taken = None if chosen[rows].all() else torch.from_numpy(chosen[rows])
            states: list[State] = [None] * len(signals)
            for index in range(1, cache.layers):
                alive = scored_positions(outcomes)
                if not alive:
                    return
                declared = {signals[position].inputs for position in alive}
                layer = read_layer(cache, index, rows, frozenset[Input]().union(*declared))
                layer = layer if taken is None else layer.take(taken)
                shared.begin(layer)
                views = {inputs: layer.only(inputs) for inputs in declared}
                for position in alive:
                    signal, scores = signals[position], outcomes[position]
                    assert isinstance(scores, np.ndarray)
                    try:
                        block, states[position] = signal.step(views[signal.inputs], states[position])
                        block = validated_score(signal, layer, block, rows=numbers)
                        torch.from_numpy(np.asarray(scores))[index - 1, filled] = block
                    except Exception as error:  # a plug-in may raise anything; the other signals go on
                        outcomes[position] = named(signal, error)
                tensor = shared.end()
                if shared.memory_asked:
                    tensor = tensor or written_features(layer, cache, rows, taken)
                if tensor:
                    raise WrittenInputError(tensor, index)
    if written := shared.written_head():
        raise WrittenInputError(*written)


def written_features(layer: Layer, cache: Cache, rows: slice, taken: Tensor | None) -> str:
    """The name of a layer's features where they are not those of the cache any more, which is mapped anew."""
    if layer.features is None:
        return ""
    stored = cache.features(layer.index, rows)
    return "" if torch.equal(layer.features, stored if taken is None else stored[taken]) else "layer.features"


def fitted(
    signal: ExitSignal, cache: Cache, rows: NDArray[np.intp] | None = None, *, target: Target | None = None
) -> ExitSignal:
    """The signal after learning from the samples at ``rows`` of a cache (default: all of them).

    It learns what is right by the ``target``: by default that of the cache.

    The signal gets one layer at a time, its features block by block, so memory holds a block and not the cache. What
    was fitted before comes from the fit cache.
    """
    chosen = np.arange(cache.rows) if rows is None else np.asarray(rows)
    ready = without_untaught_layers(signal, cache, chosen, target=target)
    labels = cache.truth(target)[chosen]
    return remembered(ready, cache, chosen, labels, lambda: fitted_now(ready, cache, chosen, labels))


def fitted_now(signal: ExitSignal, cache: Cache, rows: NDArray[np.intp], labels: NDArray[np.int64]) -> ExitSignal:
    """The same without a look into the fit cache; an InputError names a signal that fails, or writes into a head."""
    layers = CalibrationLayers(cache, rows, signal.inputs)
    try:
        with ProgressBar(f"fitting {signal.text}", cache.layers, transient=True) as bar:
            layers.on_new_layer = bar.advance
            ready = signal.fit(layers, torch.from_numpy(labels))
    except Exception as error:  # a plug-in may raise anything
        raise named(signal, error) from error
    finally:
        written = layers.written_head()
        if written:
            cache.read_heads_again()
    if written:
        raise InputError(f"signal {signal.text} wrote into {written} in fit, which it may only read")
    return ready


def without_untaught_layers(
    signal: ExitSignal, cache: Cache, rows: NDArray[np.intp], *, target: Target | None = None
) -> ExitSignal:
    """The signal without the layers that the samples at ``rows`` cannot teach it, to be fitted on parts of them."""
    check_inputs(cache, signal)
    layers = CalibrationLayers(cache, rows, frozenset({"logits"}))
    try:
        return signal.leave_out(layers, torch.from_numpy(cache.truth(target)[rows]))
    except Exception as error:  # a plug-in may raise anything
        raise named(signal, error) from error


def named(signal: ExitSignal, error: Exception) -> InputError:
    """What a signal raised, as one line that names it; an InputError as it is. The cause is kept for ``--debug``."""
    if isinstance(error, InputError):
        return error
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    failure = InputError(f"signal {signal.text} raised {type(error).__name__}{': ' if first else ''}{first}")
    failure.__cause__ = error
    return failure
