"""One array for the rows of every block: a large array that is made anew for each is not given back to the system."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class KeptRows:
    """Room for the rows of one block after another.

    The C library keeps arrays of some tens of megabytes for the next one and finds that it does not fit: over the
    layers of a large cache a fit came to hold half a gigabyte that no array was in.
    """

    def __init__(self) -> None:
        self._held: NDArray[np.float64] = np.empty((0, 0))

    def __call__(self, rows: int, columns: int) -> NDArray[np.float64]:
        """Room [rows, columns] with anything in it; what was asked for before is lost."""
        if len(self._held) < rows or self._held.shape[1] != columns:
            self._held = np.empty((rows, columns))
        return self._held[:rows]
