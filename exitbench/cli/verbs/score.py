"""``exitbench score``: the raw scores of one signal on one cache."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.options.out_option import ForceOption, refuse_out
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def command(
    cache: Annotated[str, typer.Argument(help="A cache, by name or path.", show_default=False)],
    signal: Annotated[str, typer.Option(help="One signal, such as 'cap[alpha=0.1]'.", show_default=False)],
    out: Annotated[Path, typer.Option(help="Where to write: a .parquet or .npz file.", show_default=False)],
    fit_on: Annotated[
        str | None, typer.Option(help="The cache that a signal with something to learn learns from.")
    ] = None,
    target: TargetOption = None,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    force: ForceOption = False,
) -> None:
    """Write the score of every sample at every internal layer.

    A .parquet file has the columns `id`, `layer` (from 1) and `score`, one row per sample and layer, with a null where
    the signal defines no score. An .npz file has `scores` [layers - 1, samples], NaN there, and `ids` [samples].

    **Examples**

    `exitbench score my-cache --signal 'cap[alpha=0.1]' --out scores.parquet`

    `exitbench score dev --signal 'right-tool[temperature=fitted]' --fit-on train --out scores.npz`
    """
    fit_cache(off=no_fit_cache)
    from exitbench.cli.loading.declared_names import refuse_unknown_names
    from exitbench.errors import InputError

    refuse_unknown_names([signal], signals_dir or [])
    writers = {".parquet": _write_parquet, ".npz": _write_npz}
    if out.suffix not in writers:
        raise InputError(f"--out must end in {' or '.join(writers)}, found {str(out)!r}")

    from exitbench.atomic_files import whole_file
    from exitbench.benchmarks.scoring.score_cache import score
    from exitbench.cli.cache_argument import named_cache
    from exitbench.cli.signals_option import load
    from exitbench.cli.unchanged_cache import unchanged_cache

    registry = load(signals_dir)
    made = registry.make(signal)
    if made.needs_fit and fit_on is None:
        raise InputError(f"signal {made.text} learns from labelled samples: name a cache with --fit-on")
    path, fit_path = named_cache(cache), None if fit_on is None else named_cache(fit_on)
    refuse_out(out, force=force)  # after the names, against which --force would not help; before the hashes
    source = unchanged_cache(path, [made])
    calibration = None if fit_path is None else unchanged_cache(fit_path, [made])
    scores = score(source, made, fit_on=calibration, target=target_name(target))
    with whole_file(out) as temporary:
        writers[out.suffix](temporary, source.ids, scores)
    echo(f"{out}: {made.text}, {scores.shape[0]} layers, {scores.shape[1]} samples")


def _write_parquet(path: Path, ids: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
    """``id, layer, score``, layer by layer; a null where there is no score."""
    import numpy as np
    import pandas as pd

    internal, samples = scores.shape
    table = pd.DataFrame(
        {
            "id": np.tile(ids, internal),
            "layer": np.repeat(np.arange(1, internal + 1), samples),
            "score": scores.ravel(),
        }
    )
    table.to_parquet(path, index=False)


def _write_npz(path: Path, ids: NDArray[np.int64], scores: NDArray[np.float64]) -> None:
    """``scores`` [layers - 1, samples] and ``ids`` [samples]."""
    import numpy as np

    with path.open("wb") as file:
        np.savez(file, scores=scores, ids=ids)
