"""What several signals read of the same logits, computed once for all of them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

FEW_CLASSES = 3
"""Up to here the order of a sum over classes is the same in every memory layout."""


def version(tensor: Tensor) -> int:
    """How often torch has seen this tensor written in place; it does not count in inference mode."""
    return 0 if tensor.is_inference() else tensor._version


def same_bits(tensor: Tensor, other: Tensor) -> bool:
    """Whether two tensors of one shape hold the same numbers, NaN included."""
    return torch.equal(tensor, other) or torch.equal(torch.nan_to_num(tensor), torch.nan_to_num(other))


class Derived(dict[object, Tensor]):
    """What was derived from a layer's logits, by key; remembers the version of each tensor when it was derived.

    After :meth:`copy_new` also its numbers: a write by another way than torch's (an array, ``.data``) has no version.
    """

    def __init__(self) -> None:
        super().__init__()
        self._versions: dict[object, int] = {}
        self._copies: dict[object, Tensor] = {}

    def __setitem__(self, key: object, tensor: Tensor) -> None:
        super().__setitem__(key, tensor)
        self._versions[key] = version(tensor)

    def copy_new(self) -> None:
        """Copy what was derived since the last call."""
        for key, tensor in tuple(self.items()):
            if key not in self._copies:
                self._copies[key] = tensor.clone()

    def written(self) -> str:
        """The name of a tensor that was written into since it was derived; empty where none was."""
        for key, tensor in self.items():
            copy = self._copies.get(key)
            if version(tensor) != self._versions[key] or (copy is not None and not same_bits(tensor, copy)):
                return f"what is derived from the layer, {key}"
        return ""


class LogitQuantities:
    """Quantities derived from the ``logits`` [samples, classes] of one layer: each computed at most once, in float64.

    They are kept in ``derived``, which all views of a layer share, beside what signals keep there by :meth:`once`.

    With few classes and many samples the numbers lie class by class in memory: sums and maxima over two neighbours
    would take most of the time of a replay; over two long columns they take almost none. No value depends on it.
    """

    logits: Tensor
    derived: Derived

    def once(self, key: object, make: Callable[[], Tensor]) -> Tensor:
        """What ``make`` returns, computed once for all signals that ask for ``key`` at this layer.

        The key must tell everything apart that the value depends on besides this layer's own tensors.
        """
        derived = self.derived
        if key not in derived:
            derived[key] = make()
        return derived[key]

    @property
    def logits64(self) -> Tensor:
        """The logits in float64, [samples, classes]."""
        return self.once(("logits", "float64"), self._logits64)

    def _logits64(self) -> Tensor:
        samples, classes = self.logits.shape
        if samples == 1 or classes > FEW_CLASSES:
            return self.logits.double()
        columns = torch.empty((classes, samples), dtype=torch.float64, device=self.logits.device)
        return columns.copy_(self.logits.T).T

    @property
    def _largest(self) -> Tensor:
        """The largest logit, [samples, 1]."""
        return self.once(("logits", "largest"), lambda: self.logits64.amax(dim=1, keepdim=True))

    @property
    def _shifted(self) -> Tensor:
        """The logits minus the largest one, [samples, classes]."""
        return self.once(("logits", "shifted"), lambda: self.logits64 - self._largest)

    @property
    def _log_total(self) -> Tensor:
        """The logarithm of the sum over classes of exp(logit - largest logit), [samples, 1]."""
        return self.once(("logits", "log total"), self._log1p_of_other_classes)

    def _log1p_of_other_classes(self) -> Tensor:
        # The library's log-softmax adds exp(-30) to 1 before it takes the logarithm and loses most of it there;
        # log1p over the other classes keeps the full precision of a confident answer.
        shifted = self._shifted
        if shifted.shape[1] == 2:
            others = shifted.amin(dim=1, keepdim=True).exp()
        else:
            others = shifted.exp().scatter_(1, self.prediction[:, None], 0.0).sum(dim=1, keepdim=True)
        return torch.log1p(others)

    @property
    def log_probabilities(self) -> Tensor:
        """Log-softmax of the logits in float64, [samples, classes], precise also where a probability is almost 1."""
        return self.once(("logits", "log probabilities"), lambda: self._shifted - self._log_total)

    def log_probabilities_of(self, classes: Tensor) -> Tensor:
        """The log-probabilities of some classes of each sample, [samples, k] as ``classes``, and of no others."""
        return self._shifted.gather(1, classes) - self._log_total

    @property
    def probabilities(self) -> Tensor:
        """Softmax of the logits in float64, [samples, classes]."""
        return self.once(("logits", "probabilities"), lambda: torch.exp(self.log_probabilities))

    @property
    def log_complements(self) -> Tensor:
        """The logarithm of ``1 - p`` of each class in float64, [samples, classes], precise also where p is almost 1."""
        return self.once(("logits", "log complements"), self._log_complements)

    def _log_complements(self) -> Tensor:
        logs = self.log_probabilities
        if logs.shape[1] == 2:
            return logs.flip(dims=(1,))
        best = self.prediction[:, None]
        others = torch.logsumexp(logs.scatter(1, best, -torch.inf), dim=1, keepdim=True)
        return torch.log1p(-self.probabilities.scatter(1, best, 0.0)).scatter(1, best, others)

    @property
    def entropy(self) -> Tensor:
        """Entropy of the softmax in nats, [samples] float64."""
        return self.once(("logits", "entropy"), lambda: -(self.probabilities * self.log_probabilities).sum(dim=1))

    @property
    def energy(self) -> Tensor:
        """Energy of the logits at temperature 1, ``-logsumexp(l)``, [samples] float64."""
        return self.once(("logits", "energy"), lambda: -(self._largest + self._log_total)[:, 0])

    @property
    def prediction(self) -> Tensor:
        """The class with the largest logit, [samples] int64; the first one on a tie."""
        return self.once(("logits", "prediction"), lambda: self.logits.argmax(dim=1))
