"""One configuration of a signal: its parameters and exit rule in one network, as plain values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.scoring.signal_scores import SignalScores
from exitbench.bracketed_text import split_outside
from exitbench.exit_rule import Direction

if TYPE_CHECKING:
    from exitbench.signals.contract.signal import ExitSignal  # needs torch, which a process that only measures does not


def settings(signal: ExitSignal) -> list[tuple[object, object]]:
    """The value and the default of every parameter."""
    return [
        (getattr(signal, field.name), field.default)
        for field in dataclasses.fields(signal)
        if not field.metadata.get("learned")
    ]


def configuration_of(signal: ExitSignal, depth: int) -> Configuration:
    """A signal in plain values; one that could never exit in a network of this ``depth`` is left out."""
    allowed = signal.thresholds.values(depth)
    integers = None if allowed is None else (allowed.start, allowed.stop - 1)
    never = signal.first_exit_layer > depth - 1 or (integers is not None and integers[0] > integers[1])
    reason = f"left out: its first exit layer is {signal.first_exit_layer}, and {depth} layers have {depth - 1} exits"
    return Configuration(
        signal=signal.name,
        title=signal.title,
        parameters=signal.parameters_text,
        text=signal.text,
        changed=sum(value != default for value, default in settings(signal)),
        direction=signal.exits_when,
        first_exit_layer=signal.first_exit_layer,
        first_scored_layer=signal.first_scored_layer,
        integers=integers,
        learns=signal.needs_fit,
        is_probability=signal.probability_of == "right",
        problem=reason if never else "",
        left_out=never,
    )


@dataclass(frozen=True)
class Configuration:
    """One signal with its parameters, in plain values: all that measuring its scores needs.

    ``parameters`` lists every parameter with its value; ``changed`` counts those that are not at their
    defaults. ``is_probability`` says that a score is the probability of a right answer. ``problem`` is
    empty, or why there are no scores; ``left_out`` marks the harmless cases of a grid value that could
    never exit in a network this shallow, and of a signal that cannot run on this cache (``cannot_run``), which
    ``lacks`` what it reads. ``unscored`` lists protocol, layer and reason where the calibration samples could not teach
    it; ``head_notes`` lists layer and note where its head leaves it no score, or little to see. ``fits`` lists what it
    was fitted on (a variant), the parameters that gave it and the samples it took. ``no_promise`` says why no threshold
    of it can be certified: half of the samples could not teach it.
    """

    signal: str
    title: str
    parameters: str
    text: str
    changed: int
    direction: Direction
    first_exit_layer: int
    first_scored_layer: int
    integers: tuple[int, int] | None
    learns: bool
    is_probability: bool = False
    problem: str = ""
    left_out: bool = False
    unscored: tuple[tuple[str, int, str], ...] = ()
    cannot_run: bool = False
    lacks: str = ""
    fits: tuple[tuple[str, int, int], ...] = ()
    head_notes: tuple[tuple[int, str], ...] = ()
    no_promise: str = ""


def signal_scores(configuration: Configuration, values: NDArray[np.float64]) -> SignalScores:
    """Scores [layers - 1, samples] with the exit rule that applies to them."""
    bounds = configuration.integers
    return SignalScores(
        values,
        configuration.direction,
        first_exit_layer=configuration.first_exit_layer,
        first_scored_layer=configuration.first_scored_layer,
        integers=None if bounds is None else range(bounds[0], bounds[1] + 1),
        signal=configuration.text,
    )


def grid_text(parameters: Iterable[str]) -> str:
    """Several settings of the same parameters as one text, each with the values it takes.

    >>> grid_text(["alpha=0.1,center=false", "alpha=1,center=false"])
    'alpha=0.1|1,center=false'
    """
    values: dict[str, list[str]] = {}
    for setting in parameters:
        for part in filter(None, split_outside(setting, ",")):
            name, value = part.split("=", 1)
            taken = values.setdefault(name, [])
            if value not in taken:
                taken.append(value)
    return ",".join(f"{name}={'|'.join(taken)}" for name, taken in values.items())
