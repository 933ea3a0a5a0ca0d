"""A cascade of complete networks as one cache (CascadeBERT): each network's last answer is an exit, costs add up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.cache import Cache, CacheWriter, Model
from exitbench.cache.format.manifest import CostUnit
from exitbench.derive.derive_cache import named_source
from exitbench.errors import InputError

SHARD_ROWS = 4096
GAP = 8
"""Rows of a network's cache that are read and not needed, before a reader skips them."""
SETTLED = ("operations", "milliseconds")
"""Units in which the costs of two networks can be added."""


def cascade(members: Sequence[Cache], out: Path, *, costs: Sequence[float] | None = None) -> None:
    """Write the last layers of complete networks, the cheapest first, as one network whose costs add up.

    The caches hold the same samples of one split by id, in any order, with the same labels. ``costs`` is what each
    network costs alone, in one unit; without it the caches must say it in operations or milliseconds.
    """
    if len(members) < 2:
        raise InputError(f"expected at least two caches to cascade, found {len(members)}")
    first = members[0]
    for member in members:
        member.require_unchanged(features=False)
    orders = [same_samples(first, member) for member in members]
    alone, unit = member_costs(members, costs)
    heads = None
    widths: list[int] | None = None
    if all(member.has_heads for member in members):
        tensors = [member.head_tensors() for member in members]
        heads = [weights[-1] for weights, _ in tensors], torch.stack([bias[-1] for _, bias in tensors])
        widths = [int(weight.shape[1]) for weight in heads[0]]
    alike = widths is not None and len(set(widths)) == 1
    norms = heads is not None and all(member.stores_offset_norms for member in members)
    names = [member.manifest.model.name for member in members]
    with CacheWriter(
        out,
        task=first.manifest.task,
        split=first.manifest.split,
        model=Model(" then ".join(names), None, len(members), widths[0] if alike and widths else None),
        heads=heads,
        shard_rows=SHARD_ROWS,
        provenance={"started": first.manifest.provenance.started, "note": "a cascade of complete networks"},
        costs=[float(total) for total in np.cumsum(alone)],
        cost_unit=unit,
        widths=widths if widths and not alike else None,
        groups=first.groups is not None,
        labelled=first.labelled,
        target=first.manifest.target,
        role="train" if any(member.manifest.split_role == "train" for member in members) else first.manifest.split_role,
        derived={
            "method": "cascade",
            "parameters": {"costs": [float(cost) for cost in alone], "cost_unit": unit},
            "sources": {f"network {number}": named_source(member) for number, member in enumerate(members, 1)},
            "no_heads": "" if heads is not None else missing_heads(members),
        },
    ) as writer:
        for shard in writer.pending(first.rows):
            writer.add(**cascade_rows(members, orders, slice(shard.start, shard.stop), norms=norms))


def missing_heads(members: Sequence[Cache]) -> str:
    """Why a cascade has no heads: the first network without them, and what its cache says about it."""
    member = next(member for member in members if not member.has_heads)
    reason = member.manifest.no_heads
    return f"network {member.name} has none" + (f": {reason}" if reason else "")


def same_samples(first: Cache, member: Cache) -> NDArray[np.intp]:
    """Where the samples of the first cache lie in another, [samples]; an InputError where they are not the same."""
    task, other = first.manifest.task, member.manifest.task
    if (task.name, task.classes) != (other.name, other.classes):
        raise InputError(
            f"expected caches of one task, found {task.name} in {first.name}, {other.name} in {member.name}"
        )
    split, other_split = first.manifest.split, member.manifest.split
    if split != other_split:  # an id is a sample's within its split: row 7 of dev is not row 7 of train
        raise InputError(f"expected caches of one split, found {split} in {first.name}, {other_split} in {member.name}")
    order = positions(first.ids, member.ids)
    if order is None:
        shared = len(np.intersect1d(first.ids, member.ids))
        raise InputError(
            f"expected the same samples by id, found {shared} of {first.rows} ids of {first.name} among the "
            f"{member.rows} of {member.name}"
        )
    if first.labelled != member.labelled or (first.labelled and not (first.labels == member.labels[order]).all()):
        raise InputError(f"expected the same labels, found others in {member.name} than in {first.name}")
    return order


def positions(ids: NDArray[np.int64], among: NDArray[np.int64]) -> NDArray[np.intp] | None:
    """The position of every id among others, which are distinct; ``None`` where the two are not the same set."""
    if len(ids) != len(among):
        return None
    by_id = np.argsort(among, kind="stable")
    order = by_id[np.minimum(np.searchsorted(among[by_id], ids), len(ids) - 1)]
    return order if (among[order] == ids).all() else None


def member_costs(members: Sequence[Cache], costs: Sequence[float] | None) -> tuple[list[float], CostUnit]:
    """What each network costs alone and in which unit; an InputError where they cannot be compared."""
    if costs is not None:
        if len(costs) != len(members) or not all(cost > 0 for cost in costs) or not math.isfinite(sum(costs)):
            raise InputError(
                f"expected {len(members)} costs above 0, one for each cache, with a finite sum, found {list(costs)}"
            )
        return list(costs), "relative"
    units = {member.manifest.cost_unit for member in members}
    known = [member.costs[-1] for member in members if member.costs is not None]
    if len(known) < len(members) or len(units) > 1 or not units.issubset(SETTLED):
        raise InputError(
            "expected the cost of every network in one unit of operations or milliseconds, found caches that do not "
            "say it; name them, cheapest first, such as --costs 1,4"
        )
    return known, units.pop()


def cascade_rows(
    members: Sequence[Cache], orders: Sequence[NDArray[np.intp]], rows: slice, *, norms: bool
) -> dict[str, Any]:
    """A batch for the writer: some rows of the first cache, and what each network says of these samples."""
    first = members[0]

    def of_each(read: Callable[[Cache, slice], Tensor]) -> Tensor:
        return torch.stack(
            [rows_at(partial(read, member), order[rows]) for member, order in zip(members, orders, strict=True)]
        )

    return {
        "logits": of_each(lambda member, part: member.logits(member.layers, part)),
        "offset_norm": of_each(lambda member, part: member.offset_norms(member.layers, part)) if norms else None,
        "ids": first.ids[rows],
        "labels": first.labels[rows] if first.labelled else None,
        "groups": None if first.groups is None else first.groups[rows],
    }


def rows_at(read: Callable[[slice], Tensor], positions: NDArray[np.intp]) -> Tensor:
    """What ``read`` gives of the rows at some positions, in their order; neighbours are read together."""
    rising = np.sort(positions)
    runs = np.split(rising, np.flatnonzero(np.diff(rising) > GAP) + 1)
    parts = [read(slice(int(run[0]), int(run[-1]) + 1))[torch.from_numpy(run - run[0])] for run in runs]
    return torch.cat(parts)[torch.from_numpy(np.argsort(np.argsort(positions)))]
