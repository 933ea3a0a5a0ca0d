"""What a fitted signal said of samples that its fit has not seen, kept beside the fits.

A run that finds the scores needs neither the fit nor the features: an entry has some kilobytes where a fit may have
megabytes. It is found by the key of the fit and the rows that were scored, and it is believed, bounded and turned off
as the fits are (:mod:`exitbench.benchmarks.scoring.fit_cache`).
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.scoring import fit_cache
from exitbench.benchmarks.scoring.fit_entry import array_of, read_entry
from exitbench.benchmarks.scoring.score_store import Scores
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.signals.contract.feature_statistics import pack
from exitbench.signals.contract.signal import ExitSignal


def kept_scores(
    signal: ExitSignal,
    cache: Cache,
    rows: NDArray[np.intp],
    labels: NDArray[np.int64],
    scored: NDArray[np.intp],
    make: Callable[[], tuple[Scores, int]],
) -> tuple[Scores, int]:
    """What ``make`` returns, from the fit cache's folder where it was made before; it is kept there otherwise.

    That is the scores [layers - 1, samples] of the rows ``scored`` by ``signal`` fitted on ``rows`` with ``labels``,
    and how many parameters the fit has.
    """
    folder = fit_cache.fit_cache_folder()
    key = None if folder is None else scores_key(signal, cache, rows, labels, scored)
    if folder is None or key is None:
        return make()
    path = folder / f"{key}{fit_cache.SUFFIX}"
    stored = stored_scores(path, key, (cache.layers - 1, len(scored)))
    if stored is not None:
        return stored
    scores, parameters = make()
    fit_cache.write_entry(path, key, {"scores": pack(scores), "parameters": parameters})
    return scores, parameters


def scores_key(
    signal: ExitSignal,
    cache: Cache,
    rows: NDArray[np.intp],
    labels: NDArray[np.int64],
    scored: NDArray[np.intp],
) -> str | None:
    """The name of the entry; ``None`` where no fit of this signal is kept."""
    fit = fit_cache.kept_key(signal, cache, rows, labels)
    if fit is None:
        return None
    digest = fit_cache.digest_of(np.ascontiguousarray(scored, dtype=np.int64))
    return hashlib.sha256(f"scores of {digest} by {fit}".encode()).hexdigest()


def stored_scores(path: Path, key: str, shape: tuple[int, int]) -> tuple[Scores, int] | None:
    """The scores and the number of parameters of an entry; ``None`` where there is none that can be believed."""
    try:
        entry = read_entry(path, key, fit_cache.LARGEST)
        scores, parameters = array_of(entry["scores"]), entry["parameters"]
    except (OSError, ValueError, KeyError, TypeError, InputError):
        return None
    if scores is None or scores.shape != shape or not isinstance(parameters, int):
        return None
    with contextlib.suppress(OSError):  # a folder that may only be read serves all the same
        os.utime(path)
    return scores.astype(np.float64), parameters
