"""The contract of a method that gives a network other answers: what it declares, what it is given, what it returns.

A method is a frozen dataclass in a file of its own, with its parameters as fields. It is fitted on one cache and then
answers for the rows of another cache of the same network. The last layer always keeps the network's own answer, so
that the full network stays what it was and every derived cache can be compared with its source.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from torch import Tensor

from exitbench.cache import Cache
from exitbench.signals.contract.signal import Parametrised

Need = Literal["features", "labels"]
WeightBias = tuple[Tensor, Tensor]
"""Weight [classes, width] and bias [classes] of one layer."""


class DerivedAnswers(ABC):
    """What a fitted method says about rows of a cache, block by block.

    ``heads`` has one pair for every internal layer where the answers are ``W x + b`` of :meth:`features`, else None,
    and ``not_linear`` says why.
    """

    heads: Sequence[WeightBias] | None = None
    not_linear: str = ""

    @abstractmethod
    def logits(self, source: Cache, rows: slice) -> list[Tensor]:
        """The logits of every internal layer, each [samples, classes]."""

    def features(self, source: Cache, layer: int, rows: slice) -> Tensor:
        """What the heads of an internal layer read, [samples, width]: by default what the network's own head reads."""
        return source.features(layer, rows)


@dataclass(frozen=True)
class AnswerMethod(Parametrised, ABC):
    """A way of giving every internal exit another answer.

    A subclass is a ``@dataclass(frozen=True)`` too: it sets the class variables, writes its parameters as fields made
    by ``parameter`` and fits itself in :meth:`fit`, deterministic in float64, reading features in blocks. ``needs``
    is what the cache that it is fitted on must have; features are then read from the other cache as well.
    """

    kind: ClassVar[str] = "method"
    needs: ClassVar[frozenset[Need]]

    @abstractmethod
    def fit(self, calibration: Cache) -> DerivedAnswers:
        """What the method says once it has learned from this cache."""
