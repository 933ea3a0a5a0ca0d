"""What signals with a hazard at each layer have in common: the features it sees, its fitted maps, and their fit."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Self

from torch import Tensor

from exitbench.signals.contract.feature_statistics import Packed, pack, unpack
from exitbench.signals.contract.hazard import Objective, hazard_maps, seen_layers
from exitbench.signals.contract.layer import Input, Layer
from exitbench.signals.contract.learned_signal import LearnedSignal
from exitbench.signals.contract.parameters import learned, parameter


@dataclass(frozen=True)
class HazardSignal(LearnedSignal):
    """A signal whose hazards are linear in the features, one map per layer (and class), fitted for all layers at once.

    A subclass sets ``looks_back`` where a hazard also sees the feature of the layer before, and calls
    :meth:`with_hazards` from its ``learn``.
    """

    inputs: ClassVar[frozenset[Input]] = frozenset({"logits", "features"})
    looks_back: ClassVar[bool] = False
    shift_invariant = True

    form: str = parameter(
        "class-conditional", choices=("class-conditional", "linear"), help="a map per predicted class, or one"
    )
    directions: int = parameter(8, grid=(8, 32), at_least=1, help="of largest variance, in which a feature is seen")
    penalty: float = parameter(0.001, above=0, help="of the ridge on standardised directions")
    maps: tuple[tuple[Packed, ...], ...] | None = learned()

    @property
    def needs_fit(self) -> bool:
        return self.maps is None

    @cached_property
    def tensors(self) -> list[list[Tensor]]:
        """For each layer the maps of its own feature and, if it looks back, of the one before, [maps, width + 1].

        There are none where nothing exits.
        """
        return [[unpack(packed) for packed in layer] for layer in self.maps or ()]

    def with_hazards(
        self, calibration: Sequence[Layer], rows: Tensor, objective: Objective, *, intercept_penalty: float = 0.0
    ) -> Self:
        """The signal with the maps that minimise ``objective`` and the ridge over the samples at ``rows``."""
        by_answer = self.form == "class-conditional"
        seen = seen_layers(
            self.text, calibration, rows, self.directions, looks_back=self.looks_back, by_answer=by_answer
        )
        closed = [layer for layer, _, _ in self.untaught or ()]
        fitted = hazard_maps(seen, objective, penalty=self.penalty, intercept_penalty=intercept_penalty, closed=closed)
        return dataclasses.replace(self, maps=tuple(tuple(map(pack, layer)) for layer in fitted))
