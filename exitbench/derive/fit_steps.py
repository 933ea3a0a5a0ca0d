"""What a fit has already solved: a fit that was stopped goes on after its last whole step.

A fit is a sequence of steps (a smooth problem, a pass over the rows), each a function of the caches and of the steps
before it, so a number names each. While a fit may be stopped, the results lie as tensors in a hidden folder beside what
it makes; a later fit of the same method on the same bytes, with the same versions, reads them instead.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from exitbench.atomic_files import make_directory, remove_folders, write_whole
from exitbench.errors import InputError

Solution = Mapping[str, Tensor]
DECIDING = ("exitbench", "numpy", "scipy", "torch")
"""The packages whose versions decide the numbers of a fit."""


class FitSteps:
    """The steps of one fit, kept in ``folder``; ``identity`` is everything that its numbers depend on."""

    def __init__(self, folder: Path, identity: Mapping[str, Any]) -> None:
        self.folder, self.number = folder, 0
        written = json.dumps([identity, {name: version(name) for name in DECIDING}], sort_keys=True)
        self.key = hashlib.sha256(written.encode()).hexdigest()

    def next(self, solve: Callable[[], Solution]) -> Solution:
        """The result of the next step: what is kept of it, or what ``solve`` gives now."""
        self.number += 1
        path = self.folder / f"step-{self.number:05d}.safetensors"
        kept = self._read(path)
        if kept is None:
            kept = solve()
            make_directory(self.folder)
            contiguous = {name: tensor.detach().contiguous() for name, tensor in kept.items()}
            write_whole(path, [save(contiguous, {"fit": self.key})])
        return kept

    def remove(self) -> None:
        """Forget all steps."""
        if self.folder.is_dir():
            remove_folders(self.folder)

    def _read(self, path: Path) -> Solution | None:
        """What is kept of this very fit; nothing where the file is missing, of another fit, or damaged."""
        if not path.is_file():
            return None
        try:
            with safe_open(path, framework="pt") as file:
                if (file.metadata() or {}).get("fit") != self.key:
                    return None
                return {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError):
            return None


_current: ContextVar[FitSteps | None] = ContextVar("current fit", default=None)


@contextmanager
def kept_steps(made: Path, identity: Mapping[str, Any]) -> Iterator[None]:
    """Inside, :func:`step` keeps what it solves, beside what is ``made`` of it, until that is whole or refused.

    A fit that is stopped leaves its steps for the next call.
    """
    steps = FitSteps(made.with_name(f".{made.name}.fit"), identity)
    token = _current.set(steps)
    try:
        yield
    except InputError:
        steps.remove()
        raise
    finally:
        _current.reset(token)
    steps.remove()


def step(solve: Callable[[], Solution]) -> Solution:
    """The result of ``solve``, which is asked once, however often the fit around it is stopped."""
    steps = _current.get()
    return solve() if steps is None else steps.next(solve)
