"""L-BFGS from a fixed start to a small gradient: how every smooth problem of a method is solved."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from exitbench.derive.fit_steps import step

Array = NDArray[np.float64]
Objective = Callable[[Array], tuple[float, Array]]
"""The loss at a point, and its gradient there."""


def minimum(
    objective: Objective,
    start: Array,
    *,
    gradient: float,
    steps: int = 1000,
    bounds: Sequence[tuple[float | None, float | None]] | None = None,
) -> Array:
    """Where the loss is smallest near ``start``: until no part of the gradient is above ``gradient``, or ``steps``."""

    def solved() -> dict[str, torch.Tensor]:
        from scipy.optimize import minimize  # half a second to load, and only a fit needs it

        options = {"maxiter": steps, "maxfun": 4 * steps, "maxcor": 20, "gtol": gradient, "ftol": 0.0}
        best = minimize(objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=options)  # type: ignore[call-overload]
        return {"minimum": torch.from_numpy(np.asarray(best.x))}

    return step(solved)["minimum"].numpy()
