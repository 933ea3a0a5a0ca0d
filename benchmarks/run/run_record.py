"""``run.json``: what was run, on what, with what, and what went wrong."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from exitbench.benchmarks.results.vocabulary import RESULTS_SCHEMA
from exitbench.benchmarks.run.across_caches.shared_rows import network_of
from exitbench.benchmarks.scoring.configuration import configuration_of
from exitbench.benchmarks.suites.questions import NO_PER_LAYER
from exitbench.benchmarks.suites.suite import Suite
from exitbench.cache import Manifest
from exitbench.executors.unit import Failure
from exitbench.signals.contract.signal import ExitSignal

PACKAGES = ("exitbench", "numpy", "scipy", "torch", "pandas", "pyarrow", "safetensors")


def run_record(
    suite: Suite,
    entries: Sequence[Sequence[ExitSignal]],
    names: Sequence[tuple[str, str]],
    manifests: Mapping[str, Manifest],
    hashes: Sequence[str],
    failures: Sequence[Failure],
    unscored: Collection[str] = (),
    remarks: Sequence[str] = (),
) -> dict[str, Any]:
    """``run.json``: what was run, on what, with what, and what went wrong.

    A cache is ``verified`` where every file that was read has the hash its manifest lists; ``unscored`` ones are not.
    ``remarks`` say which signals cannot run on some cache, or fail a check.
    """
    caches = {
        name: {
            "manifest_sha256": sha,
            "verified": name not in unscored,
            "model": manifest.model.name,
            "layers": manifest.model.layers,
            "task": manifest.task.name,
            "split": manifest.split,
            "metric": manifest.task.metric,
            "classes": list(manifest.task.classes),
            "rows": manifest.rows,
            "target": suite.questions.target or manifest.target,
            "role": manifest.split_role,
            "costs": None if manifest.costs is None else [cost / manifest.costs[-1] for cost in manifest.costs],
            "table_layers": list(suite.layers_of(manifest.model.layers)),
            "protocols": list(suite.questions_of(path).protocols),
            "network": network_of(manifest),
            "network_seed": manifest.provenance.seed,
            "network_note": manifest.provenance.note,
            **how_made(manifest),
        }
        for path, (name, manifest), sha in zip(suite.caches, manifests.items(), hashes, strict=True)
    }
    described = [
        {
            "signal": name,
            "parameters": parameters,
            "text": text,
            "title": entry[0].title,
            "reference": asdict(entry[0].reference),
        }
        for (name, parameters), text, entry in zip(names, suite.signals, entries, strict=True)
    ]
    depths = {manifest.model.layers for manifest in manifests.values()}
    notes = [
        f"{configuration.text} with {depth} layers: {configuration.problem}"
        for depth in sorted(depths)
        for entry in entries
        for signal in entry
        if (configuration := configuration_of(signal, depth)).left_out
    ]
    notes += [
        f"{name}: no per-layer thresholds, {NO_PER_LAYER}"
        for name in dict.fromkeys(entry[0].name for entry in entries if entry[0].thresholds.values(depth=2) is not None)
        if suite.questions.per_layer(name)
    ]
    machine = {
        "platform": platform.platform(),
        "processor": platform.machine(),
        "python": sys.version.split()[0],
    }
    return {
        "schema": RESULTS_SCHEMA,
        "complete": not failures,
        "suite": suite.to_json(),
        "seed": suite.questions.seed,
        "caches": caches,
        "entries": described,
        "git": git_state(),
        "versions": recorded_versions(),
        "machine": machine,
        "failures": [asdict(failure) for failure in failures],
        "notes": [*notes, *remarks],
    }


def how_made(manifest: Manifest) -> dict[str, str | int]:
    """How a cache's network was trained, and the method that its answers are derived by, where known."""
    training = dict(manifest.extra_provenance)
    texts = {"recipe": training.get("recipe"), "method": (manifest.derived or {}).get("method")}
    counts = {name: training.get(name) for name in ("epochs", "training_rows")}
    return {
        **{name: text for name, text in texts.items() if isinstance(text, str) and text},
        **{name: count for name, count in counts.items() if isinstance(count, int) and not isinstance(count, bool)},
    }


def recorded_versions() -> dict[str, str]:
    """The installed versions of what results depend on."""
    installed = {}
    for package in PACKAGES:
        try:
            installed[package] = version(package)
        except PackageNotFoundError:
            installed[package] = "not installed"
    return installed


def git_state() -> dict[str, Any]:
    """The commit of exitbench's own sources and whether they were changed; None for both where git does not track them.

    An installed exitbench often lies inside a repository, of its user's project or home: that commit says nothing here.
    """
    source = Path(__file__).resolve()

    def git(*words: str) -> str:
        return subprocess.run(
            ["git", "-C", str(source.parent), *words], capture_output=True, text=True, check=True
        ).stdout.strip()

    try:
        git("ls-files", "--error-unmatch", source.name)
        return {"commit": git("rev-parse", "HEAD"), "dirty": bool(git("status", "--porcelain"))}
    except (OSError, subprocess.CalledProcessError):
        return {"commit": None, "dirty": None}
