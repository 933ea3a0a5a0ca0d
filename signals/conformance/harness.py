"""What the conformance checks are written with: the points of a signal to look at, raw scores, comparisons."""

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

from exitbench.signals.conformance.synthetic_layers import Recipe, SyntheticLayers, made_from
from exitbench.signals.contract.layer import Layer, State
from exitbench.signals.contract.parameters import parameters
from exitbench.signals.contract.signal import ExitSignal


class CheckError(AssertionError):
    """A signal does not have the property that a check looked for."""


Subject = ExitSignal | type[ExitSignal]
Check = Callable[[Subject], None]


def points(signal: Subject) -> Iterator[ExitSignal]:
    """The signal itself, or a class at its defaults and at each value of every parameter's grid and choices."""
    if isinstance(signal, ExitSignal):
        yield signal
        return
    default = signal()
    yield default
    for parameter in parameters(signal):
        values = (False, True) if parameter.type is bool else (*parameter.grid, *parameter.choices)
        yield from (signal(**{parameter.attribute: value}) for value in values if value != parameter.default)


@contextmanager
def one_thread() -> Iterator[None]:
    """One thread for torch: tensors this small are done long before a busy machine has woken a second one."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def at_every_point(check: Callable[[ExitSignal], None]) -> Check:
    """Let a check of one instance take a class too, and report any error as a failure that names the instance."""

    @functools.wraps(check)
    def checked(signal: Subject) -> None:
        for point in points(signal):
            try:
                with one_thread():
                    check(point)
            except Exception as error:
                kind = "" if isinstance(error, CheckError) else f"{type(error).__name__}: "
                raise CheckError(f"{point.text}: {kind}{error}") from error

    return checked


def require(holds: bool, otherwise: str) -> None:
    """Fail the check unless the property holds."""
    if not holds:
        raise CheckError(otherwise)


def ready(signal: ExitSignal, data: SyntheticLayers) -> ExitSignal:
    """The signal, fitted where it must be on the numbers of ``data``; what one check has fitted serves the next."""
    return _fitted(signal, data.recipe) if signal.needs_fit else signal


@functools.lru_cache(maxsize=512)
def _fitted(signal: ExitSignal, recipe: Recipe) -> ExitSignal:
    return fitted_anew(signal, made_from(recipe))


def fitted_anew(signal: ExitSignal, data: SyntheticLayers) -> ExitSignal:
    """The signal, fitted on ``data`` itself where it must be: for checks that look at fitting."""
    return signal.fit(data.layers, data.labels) if signal.needs_fit else signal


def scores_of(signal: ExitSignal, layers: Iterable[Layer]) -> list[Tensor]:
    """What the signal returns at each layer, unchecked, so that each check judges its own property only."""
    scores: list[Tensor] = []
    state: State = None
    for layer in layers:
        score, state = signal.step(layer, state)
        scores.append(score)
    return scores


def same(scores: Iterable[Tensor], expected: Iterable[Tensor], *, exactly: bool = False) -> bool:
    """Whether two lists of scores agree, NaN with NaN; by default up to the rounding of another order of summation."""
    tolerance = 0.0 if exactly else 1e-9
    pairs = zip(scores, expected, strict=True)
    return all(
        a.shape == b.shape and torch.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True) for a, b in pairs
    )


def largest_change(signal: ExitSignal, scores: list[Tensor], expected: list[Tensor]) -> float:
    """The largest difference where a score is defined, relative to the largest score (at least 1)."""
    a, b = (torch.stack(rows[signal.first_scored_layer - 1 :]) for rows in (scores, expected))
    return float(((a - b).abs().max() / b.abs().max().clamp(min=1.0)).nan_to_num(torch.inf))
