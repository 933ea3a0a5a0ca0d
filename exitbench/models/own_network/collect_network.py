"""Collecting from a user's own network: its rows in order, batch by batch, into a cache of any widths and costs."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import GeneratorType
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode, sdpa_flop_count

from exitbench.cache import CacheWriter, Model, Task
from exitbench.cache.format.manifest import SPLIT_ROLES, Output, SplitRole
from exitbench.cache.format.resuming import refuse_many_shards
from exitbench.errors import InputError, did_you_mean, one_line
from exitbench.models.devices import library_versions, processes
from exitbench.models.own_network.contract import ExitAnswers, Network, exit_answers, head_pairs
from exitbench.models.own_network.loading import foreign_code
from exitbench.progress import ProgressBar

FEATURES = ("float16", "bfloat16", "float32", "none")

NO_HEADS = "the network gives none, which is right where its exits are not linear in the features"

CPU_ATTENTION = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
"""The attention of this name is the one that the library's counter does not know."""


def _attention_operations(query: Any, key: Any, value: Any, *others: Any, **named: Any) -> int:
    return int(sdpa_flop_count(query, key, value))  # type: ignore[no-untyped-call]


@dataclass(frozen=True)
class NetworkPlan:
    """What the first batch tells of every other: widths, outputs, and the operations of each exit per row."""

    widths: tuple[int, ...] | None
    outputs: tuple[Output, ...]
    heads: list[tuple[Tensor, Tensor]] | None
    costs: tuple[float, ...] | None
    counted: bool
    exits: int
    device: str


def collect_network(
    network: Network,
    task: Task,
    split: str,
    out: Path,
    *,
    name: str,
    reference: str = "network",
    features: str = "float16",
    batch_size: int = 64,
    shard_rows: int = 4096,
    role: SplitRole = "test",
    provenance: dict[str, Any] | None = None,
    part: tuple[int, int] | None = None,
) -> None:
    """Run every row through the network and write the cache ``out``; a stopped collection goes on where it was.

    ``reference`` stands before what is wrong with the network. Under ``accelerate launch`` every process takes its
    own shards.
    """
    if features not in FEATURES:
        near = did_you_mean(features, FEATURES)
        raise InputError(f"expected --features {', '.join(FEATURES)}, found {features!r}.{near}")
    if role not in SPLIT_ROLES:
        raise InputError(f"expected --role {', '.join(SPLIT_ROLES)}, found {role!r}.{did_you_mean(role, SPLIT_ROLES)}")
    state = processes("auto")
    with foreign_code(reference):
        total = network.total_rows
        refuse_many_shards(out, total, shard_rows)
        if network.module is not None:
            network.module.eval()
        rows_sha256 = _rows_sha256(network, total)
        plan = first_batch(network, range(min(batch_size, total)), len(task.classes))
    same = len(set(plan.widths or ())) <= 1
    weight_bias = None
    if plan.heads is not None:
        weights, biases = zip(*plan.heads, strict=True)
        weight_bias = (torch.stack(weights) if same else list(weights), torch.stack(biases))
    keeps = features != "none" and plan.widths is not None
    metadata = {
        "device": plan.device,
        "dtype": "float32",
        "versions": library_versions(),
        "batch_size": batch_size,
        "rows_sha256": rows_sha256,
        **({} if plan.heads else {"no_heads": NO_HEADS}),
    }
    with (
        CacheWriter(
            out,
            task=task,
            split=split,
            model=Model(
                name,
                _weights_sha256(network),
                plan.exits,
                plan.widths[0] if same and plan.widths else None,
            ),
            heads=weight_bias,
            feature_dtype=features if keeps else None,  # type: ignore[arg-type]
            shard_rows=shard_rows,
            provenance={**metadata, **(provenance or {})},
            costs=plan.costs,
            cost_unit="operations" if plan.counted else "relative",
            widths=None if same else plan.widths,
            outputs=plan.outputs,
            groups=network.groups is not None,
            labelled=network.labels is not None,
            role=role,
            rank=state.process_index,
            ranks=state.num_processes,
            barrier=state.wait_for_everyone,
            part=part,
        ) as writer,
        ProgressBar("collecting", total, done=writer.rows_done, visible=state.is_main_process) as bar,
    ):
        for rows in writer.pending(total):
            for start in range(rows.start, rows.stop, batch_size):
                batch_rows = range(start, min(start + batch_size, rows.stop))
                with foreign_code(reference):
                    answers = run_batch(network, batch_rows, len(task.classes))
                    _same_form(answers, plan)
                writer.add(**_arrays(network, batch_rows, answers, same=same))
                bar.advance(len(batch_rows))


@torch.no_grad()
def first_batch(network: Network, rows: range, classes: int) -> NetworkPlan:
    """Run the first rows, check what comes, and count the operations up to every exit."""
    if not rows:
        raise InputError("expected at least one row, found none")
    answers: list[ExitAnswers] = []
    operations: list[float] = []
    with FlopCounterMode(display=False, custom_mapping={CPU_ATTENTION: _attention_operations}) as counter:
        given = _exits(network, rows)
        for number, answer in enumerate(given, 1):
            operations.append(counter.get_total_flops() / len(rows))
            answers.append(exit_answers(answer, number, len(rows), classes))
            device = answer[0].device.type
    if len(answers) < 2:
        raise InputError(f"expected at least two exits, found {len(answers)}")
    present = [answer.features is not None for answer in answers]
    if any(present) != all(present):
        raise InputError(f"expected features at every exit or at none, found none at exit {present.index(False) + 1}")
    widths = tuple(int(answer.features.shape[1]) for answer in answers if answer.features is not None)
    outputs = tuple(
        Output(key, None if value.ndim == 1 else int(value.shape[1])) for key, value in answers[0].outputs.items()
    )
    # Exits that come as a list were computed before the first could be counted.
    rising = isinstance(given, GeneratorType) and all(
        later > earlier for earlier, later in zip([0.0, *operations], operations, strict=False)
    )
    counted = network.costs is None and rising
    own_costs = None if network.costs is None else tuple(map(float, network.costs))
    return NetworkPlan(
        widths=widths or None,
        outputs=outputs,
        heads=head_pairs(network, answers),
        costs=tuple(operations) if counted else own_costs,
        counted=counted,
        exits=len(answers),
        device=device,
    )


@torch.no_grad()
def run_batch(network: Network, rows: range, classes: int) -> list[ExitAnswers]:
    """What the network says of some rows, exit by exit."""
    return [exit_answers(answer, number, len(rows), classes) for number, answer in enumerate(_exits(network, rows), 1)]


def _exits(network: Network, rows: range) -> Iterable[Any]:
    given = network.exits(network.batch(rows))
    if not isinstance(given, Iterable) or isinstance(given, Tensor | dict):
        raise InputError(f"expected the exits one after another, found a {type(given).__name__}")
    return given


def _same_form(answers: Sequence[ExitAnswers], plan: NetworkPlan) -> None:
    """An InputError where a batch has other exits, widths or outputs than the first."""
    if len(answers) != plan.exits:
        raise InputError(f"expected {plan.exits} exits, as in the first batch, found {len(answers)}")
    expected = {output.name: output.size for output in plan.outputs}
    for number, answer in enumerate(answers, 1):
        width = None if answer.features is None else int(answer.features.shape[1])
        wanted = None if plan.widths is None else plan.widths[number - 1]
        if width != wanted:
            raise InputError(f"expected features of width {wanted} at exit {number}, found {width}")
        sizes = {key: None if value.ndim == 1 else int(value.shape[1]) for key, value in answer.outputs.items()}
        if sizes != expected:
            raise InputError(f"expected the outputs {_listed(expected)} at exit {number}, found {_listed(sizes)}")


def _listed(sizes: dict[str, int | None]) -> str:
    return ", ".join(f"{key} [n{'' if size is None else f', {size}'}]" for key, size in sorted(sizes.items())) or "none"


def _arrays(network: Network, rows: range, answers: Sequence[ExitAnswers], *, same: bool) -> dict[str, Any]:
    """A batch as the cache's writer takes it."""
    arrays: dict[str, Any] = {"logits": torch.stack([answer.logits.float() for answer in answers])}
    features = [answer.features.float() for answer in answers if answer.features is not None]
    if features:
        arrays["features"] = torch.stack(features) if same else features
    # A row's number in its split is the sample's name: every network collected from it has the same ids.
    named = {"labels": network.labels, "ids": range(rows.stop) if network.ids is None else network.ids}
    for key, numbers in (named | {"groups": network.groups}).items():
        if numbers is not None:
            arrays[key] = torch.as_tensor(numbers[rows.start : rows.stop])
    names = answers[0].outputs
    arrays["outputs"] = {key: torch.stack([answer.outputs[key].float() for answer in answers]) for key in names}
    return arrays


def _rows_sha256(network: Network, total: int) -> str:
    """The sha256 of labels, ids and groups: what keeps a collection from being resumed with other rows."""
    digest = hashlib.sha256(str(total).encode())
    for name, numbers in (("labels", network.labels), ("ids", network.ids), ("groups", network.groups)):
        try:
            digest.update(b"|" if numbers is None else np.asarray(numbers, dtype="<i8").tobytes())
        except (TypeError, ValueError, OverflowError) as error:
            raise InputError(f"expected whole numbers of 64 bits as {name}, found others: {one_line(error)}") from None
    return digest.hexdigest()


def _weights_sha256(network: Network) -> str | None:
    """The sha256 of the module's weights, in the order of their names; ``None`` without a module."""
    if network.module is None:
        return None
    digest = hashlib.sha256()
    for key, value in sorted(network.module.state_dict().items()):
        digest.update(key.encode() + value.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()
