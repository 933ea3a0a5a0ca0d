"""Which caches, protocol and speed-up several runs have in common: only there can their signals be compared.

A cache is known by its content (the hash of its manifest) and by what counts as right, not by its name or its folder.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from exitbench.benchmarks.results.operating_point import OperatingPoint, at_speed_up
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.run_data.protocol_order import CAUTION, cautious_first
from exitbench.reports.run_data.run_caches import CacheMetadata

Content = tuple[str, str]
"""The hash of a cache's manifest, and its target."""


@dataclass(frozen=True)
class CommonGround:
    """The caches that every one of some runs has under ``protocol``, with samples near ``point``."""

    protocol: str
    point: OperatingPoint
    shared: tuple[Content, ...]


def contents(run: FinishedRun) -> dict[Content, CacheMetadata]:
    """The caches of a run by their content, in the suite's order."""
    return {(run.record["caches"][cache.name]["manifest_sha256"], cache.target): cache for cache in run.caches}


def common_ground(runs: Sequence[FinishedRun]) -> CommonGround | None:
    """Where some runs can be compared: the protocol under which they share most caches, of those the most cautious.

    In-sample only where nothing else is shared. The speed-up is the first run's primary one if all have it, else
    another's primary one, else the lowest that all have. None where the runs share nothing.
    """
    speeds = common_speeds(runs)
    if not speeds:
        return None
    caches_of = [contents(run) for run in runs]
    shared_under: dict[str, tuple[Content, ...]] = {}
    for protocol in cautious_first(runs[0].protocols):
        shared_under[protocol] = tuple(
            content
            for content in caches_of[0]
            if all(content in caches and protocol in caches[content].protocols for caches in caches_of)
            and all(protocol in run.protocols for run in runs)
        )
    chosen = [protocol for protocol, shared in shared_under.items() if shared]
    careful = [protocol for protocol in chosen if protocol != CAUTION[-1]] or chosen
    if not careful:
        return None
    protocol = max(careful, key=lambda name: len(shared_under[name]))  # of equals the first: the most cautious
    return CommonGround(protocol, at_speed_up(speeds[0]), shared_under[protocol])


def common_speeds(runs: Sequence[FinishedRun]) -> list[float]:
    """The speed-ups that every run has, primary ones first."""
    primary = [float(run.suite["primary_speed_up"]) for run in runs]
    every = [{*map(float, run.suite["speed_ups"]), float(run.suite["primary_speed_up"])} for run in runs]
    common = set.intersection(*every)
    return [speed for speed in dict.fromkeys((*primary, *sorted(common))) if speed in common]


def fields_of(runs: Sequence[FinishedRun]) -> list[list[int]]:
    """The runs, by number, that can be compared with each other: each joins the first field it shares a cache with."""
    fields: list[list[int]] = []
    for number, run in enumerate(runs):
        for field in fields:
            if common_ground([*(runs[member] for member in field), run]) is not None:
                field.append(number)
                break
        else:
            fields.append([number])
    return fields
