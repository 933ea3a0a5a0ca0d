"""A threshold with a guarantee for a service: half of a cache chooses, the other half certifies.

On the choosing rows a signal learns, and its parameters and thresholds become one path; the certifying rows then say
how far along that path the promise is kept. Of several signals the fastest certified one is taken, each tested at its
share of the error probability.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from exitbench.benchmarks.guarantees.certify import Certificate, Promise
from exitbench.benchmarks.guarantees.expected import score_estimates, speed_up_estimate
from exitbench.benchmarks.guarantees.halves import Halves, fastest, halves_of
from exitbench.benchmarks.guarantees.losses import NO_F1, layer_losses
from exitbench.benchmarks.guarantees.sentences import sentence
from exitbench.benchmarks.results.vocabulary import Schedule
from exitbench.benchmarks.run.evaluated_configurations import default_position
from exitbench.benchmarks.run.score_stage import score_halves
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.scoring.score_store import Samples, ScoredCache
from exitbench.benchmarks.thresholds.per_layer import require_continuous
from exitbench.benchmarks.thresholds.policy_of import calibration_exits
from exitbench.benchmarks.thresholds.recommendation import Guarantee, Recommendation
from exitbench.cache import Cache, Target
from exitbench.errors import InputError
from exitbench.signals.contract.signal import ExitSignal
from exitbench.signals.registry.exit_policy import Threshold


def guaranteed_threshold(
    cache: Cache,
    entries: Sequence[Sequence[ExitSignal]],
    promise: Promise,
    *,
    schedule: Schedule = "shared",
    seed: int = 0,
    target: Target | None = None,
) -> Recommendation:
    """The fastest certified of several ``entries``, each a signal or the signals of one grid, with its guarantee.

    Its ``threshold`` is ``None`` where nothing can be certified: then do not exit.
    Raises InputError for a promise that this cache cannot give whatever its rows are.
    """
    check_promise(cache, promise, schedule)
    signals = [signal for entry in entries for signal in entry]
    if schedule != "shared":
        require_continuous(signals, cache.layers)
    scored = score_halves(cache, signals, seed=seed, target=target)
    losses = all_losses(cache, promise, scored.samples())
    groups = usable_groups(scored, entries)
    halves = [halves_of(scored, numbers, losses, default_position(scored, numbers), seed) for numbers in groups]
    entry, certificate = certified_entry(halves, promise, schedule)
    candidate, rows = certificate.candidate, halves[entry].certifying
    chosen = groups[entry][0 if candidate is None else candidate.configuration]
    signal = signals[chosen]
    if signal.needs_fit:
        order = np.argsort(cache.ids, kind="stable")
        signal = fitted(signal, cache, order[~np.isin(cache.ids[order], rows.evidence.ids)], target=target)
    exits, measure = rows.exits(candidate), scored.samples().measure
    estimates = score_estimates(exits, rows.outcomes, measure, rows.evidence.groups)
    units, count = len(rows.evidence.units), len(rows.evidence.ids)
    needed = certificate.units_needed
    rows_needed = None if needed is None else math.ceil(needed * cache.rows / units)
    return Recommendation(
        cache=cache.name,
        signal=signal.to_json(),
        text=signal.text,
        chosen=f"chosen: {signal.text}" if len(signals) > 1 else "",
        exits_when=signal.exits_when,
        threshold=json_threshold(certificate),
        speed_up=speed_up_estimate(exits, rows.outcomes, rows.evidence.groups),
        score=estimates["score"],
        loss=estimates["loss"],
        measure=measure,
        final_score=estimates["score"].value + estimates["loss"].value,
        protocol="certify",
        samples=scored.samples().size,
        target=scored.target,
        rows_needed=rows_needed,
        calibration=calibration_exits(
            rows.evidence.scores[0 if candidate is None else candidate.configuration], exits, rows.evidence.ids
        ),
        guarantee=Guarantee(
            risk=promise.risk.name,
            limit=promise.limit,
            confidence=promise.confidence if promise.procedure == "learn-then-test" else None,
            procedure=promise.procedure,
            method=certificate.method,
            rows_choose=cache.rows - count,
            rows_certify=count,
            grid=certificate.grid,
            passed=certificate.passed,
            p_value=certificate.p_value,
            level=certificate.level,
            signals=len(halves),
            sentence=sentence(
                promise,
                certificate,
                units=units,
                rows=count,
                rows_needed=rows_needed,
                looks=len(halves),
                f1=measure == "f1",
            ),
        ),
    )


def certified_entry(halves: Sequence[Halves], promise: Promise, schedule: Schedule) -> tuple[int, Certificate]:
    """Which entry to use, and what is certified of it.

    Learn then test takes the fastest of all that are certified together. A promise of the mean allows no choice by the
    certifying rows, so the choosing rows make it.
    """
    if promise.procedure == "learn-then-test":
        certificates = [each.certificate(promise, schedule, looks=len(halves)) for each in halves]
        entry = fastest(halves, certificates)
        return entry, certificates[entry]
    entry = 0
    if len(halves) > 1:
        before = [each.certificate(promise, schedule, on_choosing=True) for each in halves]
        entry = fastest(halves, before, on_choosing=True)
    return entry, halves[entry].certificate(promise, schedule)


def check_promise(cache: Cache, promise: Promise, schedule: Schedule = "shared") -> None:
    """Raise InputError for a promise that no rows of this cache could give, with the nearest that they could."""
    risk, bound = promise.risk, promise.risk.bound
    if not 0 < promise.limit < bound:
        raise InputError(
            f"a limit on {risk.name} lies between 0 and {bound:g} (0.01 is one point), found {promise.limit:g}"
        )
    if not 0 < promise.confidence < 1:
        raise InputError(f"a confidence lies between 0 and 1, found {promise.confidence:g}")
    if promise.procedure == "conformal-consistency" and (risk.name != "consistency" or schedule != "shared"):
        raise InputError(
            "conformal-consistency promises consistency with one threshold for all layers, "
            f"found the risk {risk.name} and {schedule} thresholds"
        )
    if risk.needs_labels and not cache.labelled:
        raise InputError(
            f"the risk {risk.name} needs labels, which cache {cache.name} does not hold; "
            "--risk consistency (agreement with the last layer) needs none"
        )
    if risk.name == "gap" and cache.manifest.task.metric == "f1":
        raise InputError(f"no guarantee for the gap in F1, by which {cache.name} is judged: {NO_F1}")
    if cache.manifest.split_role == "train":
        raise InputError(f"the network was trained on the rows of {cache.name}, so they say nothing about other rows")


def usable_groups(scored: ScoredCache, entries: Sequence[Sequence[ExitSignal]]) -> list[list[int]]:
    """The positions of every entry's configurations that can exit in this network."""
    groups, start = [], 0
    for entry in entries:
        numbers = range(start, start + len(entry))
        usable = [number for number in numbers if not scored.configurations[number].left_out]
        if not usable:
            raise InputError(f"signal {entry[0].text} has no exit in a network of {scored.samples().depth} layers")
        groups.append(usable)
        start += len(entry)
    return groups


def all_losses(cache: Cache, promise: Promise, samples: Samples) -> NDArray[np.float64]:
    """The loss of every layer and sample, [layers, samples] in the order of ids."""
    probabilities = None
    if promise.risk.name == "brier":
        order = np.argsort(cache.ids, kind="stable")
        layers = [cache.logits(layer).double().softmax(dim=1).cpu().numpy() for layer in range(1, cache.layers + 1)]
        probabilities = np.stack(layers)[:, order]
    return layer_losses(promise.risk, samples.predictions, samples.labels, probabilities)


def json_threshold(certificate: Certificate) -> Threshold:
    """As JSON has it: one number, a list of one per internal layer (none where nothing may exit), or nothing at all."""
    if certificate.candidate is None:
        return None
    if certificate.candidate.shared is not None:
        return certificate.candidate.shared
    return [None if math.isinf(level) else level for level in certificate.candidate.thresholds.tolist()]
