"""How long requests wait in a running model, for the verbs that measure it: one run, one table, one record."""

from __future__ import annotations

import dataclasses
import platform
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from exitbench.cli.terminal import echo, terminal_console

if TYPE_CHECKING:
    from exitbench.benchmarks.measures.cost_file import RequestTiming
    from exitbench.models.data.batches import Tokens
    from exitbench.models.inference import EarlyExitClassifier
    from exitbench.models.network.multi_exit import MultiExitModel
    from exitbench.signals.registry.exit_policy import ExitPolicy
    from exitbench.signals.registry.registry import Registry

BATCH_SIZES = (1, 8, 32)
TEXTS = 64
"""Different texts of random tokens; requests ask them again and again."""

REQUESTS = 256
"""By default; the 99th percentile of fewer would be the worst or the second."""


def machine_setting(classifier: EarlyExitClassifier) -> dict[str, Any]:
    """What times depend on besides the network."""
    import torch

    from exitbench.models.devices import library_versions

    return {
        "device": str(classifier.model.device),
        "threads": torch.get_num_threads(),
        "processor": platform.processor() or platform.machine(),
        "versions": library_versions(),
    }


def timed_requests(
    classifier: EarlyExitClassifier,
    tokens: Tokens,
    *,
    batch_sizes: Sequence[int],
    requests: int,
    setting: dict[str, Any],
    exit_layers: Sequence[int] | None = None,
) -> RequestTiming:
    """Measure, with a progress bar, in plain values for a file."""
    from exitbench.benchmarks.measures.cost_file import RequestTiming, TimedRequests
    from exitbench.models.serving.latency import time_requests
    from exitbench.models.timing import LEVEL
    from exitbench.progress import ProgressBar

    with ProgressBar("timing", len(batch_sizes) * requests) as bar:
        measured = time_requests(
            classifier,
            tokens,
            batch_sizes=batch_sizes,
            requests=requests,
            exit_layers=exit_layers,
            advance=bar.advance,
        )
    rows = [TimedRequests(**dataclasses.asdict(times)) for times in measured]
    whole = {"requests": requests, **setting, **machine_setting(classifier), "level": LEVEL}
    return RequestTiming(whole, tuple(rows))


def echo_requests(timing: RequestTiming) -> None:
    """The table, percentiles with their ratio to the full network's, and what it was measured on."""
    from rich import box
    from rich.table import Table

    from exitbench.models.serving.latency import FULL, WAYS

    table = Table(title="Milliseconds that a request waits", title_justify="left", box=box.SIMPLE, pad_edge=False)
    table.add_column("Batch", justify="right", no_wrap=True, vertical="bottom")
    table.add_column("Answered by", no_wrap=True, vertical="bottom")
    for name in ("Layers", "p50", "p95", "p99", "Requests\na second", "Times the\nfull network"):
        table.add_column(name, justify="right", no_wrap=True, vertical="bottom")
    full = {row.batch_size: row for row in timing.rows if row.way == FULL}
    sizes = [row.batch_size for row in timing.rows]
    for row, following in zip(timing.rows, [*sizes[1:], None], strict=True):
        beside = full[row.batch_size]
        pairs = ((row.p50, beside.p50), (row.p95, beside.p95), (row.p99, beside.p99))
        waits = [f"{1000 * own:.1f} ({own / other:.2f})" for own, other in pairs]
        ends = "" if row.speed_up_low is None else f" [{row.speed_up_low:.2f}, {row.speed_up_high:.2f}]"
        faster = f"{row.speed_up:.2f}{ends}"
        cells = [str(row.batch_size), row.way, f"{row.mean_layers:.2f}", *waits, f"{row.per_second:.1f}", faster]
        table.add_row(*cells, end_section=following != row.batch_size)
    terminal_console().print(table)
    setting = timing.setting
    echo(
        *(f"{name}: {words}" for name, words in WAYS.items()),
        f"{setting['requests']} requests at each batch size, {setting['exits']}, on {setting['device']} with "
        f"{setting['threads']} threads, in turns; in brackets the ratio to the full network, and a "
        f"{setting['level']:.0%} interval from the spread between rounds",
    )


def timed_policy(path: Path, registry: Registry, network: MultiExitModel | None) -> ExitPolicy:
    """A policy whose exits can be timed in this network, or in one of random weights."""
    from exitbench.errors import InputError
    from exitbench.signals.registry.exit_policy import read_policy

    stored = read_policy(path, registry)
    if not stored.calibration.exit_layers:
        raise InputError(f"{path}: expected the exits of calibration rows, found none")
    if network is not None:
        from exitbench.models.network.same_model import require_policy_model

        require_policy_model(network, stored, path)
    elif "features" in stored.signal.inputs:
        raise InputError(
            f"signal {stored.signal.text} reads features of its network: expected that network (--model), found none"
        )
    return stored


def policy_requests(
    network: MultiExitModel,
    path: Path,
    policy: ExitPolicy,
    length: int,
    batch_sizes: Sequence[int],
    requests: int,
    precision: str,
) -> RequestTiming:
    """How long requests of random tokens wait that exit where the calibration rows of the policy in ``path`` did."""
    import numpy as np

    from exitbench.models.data.batches import Tokens
    from exitbench.models.inference import EarlyExitClassifier
    from exitbench.models.timing import random_batch

    classifier = EarlyExitClassifier(network, policy.signal, policy.layer_thresholds(), precision=precision)
    classifier.require_running(path)
    # So many quantiles of the calibration's exits, so that few requests have their mean, in a fixed random order.
    shares = (np.arange(requests) + 0.5) / requests
    exits = np.quantile(policy.calibration.exit_layers, shares, method="inverted_cdf").astype(int)
    order = np.random.default_rng(0).permutation(exits)
    ids = random_batch(network, min(requests, TEXTS), length).input_ids.tolist()
    return timed_requests(
        classifier,
        Tokens(ids, None, None, 0, 0),
        batch_sizes=batch_sizes,
        requests=requests,
        setting={
            "exits": f"which exit where the policy's calibration rows did, {length} random tokens each",
            "signal": policy.signal.text,
            "length": length,
            "precision": precision,
        },
        exit_layers=order.tolist(),
    )
