"""What can be promised of every signal in a run: the certified speed-up for a harm of 2 and of 1 points.

Half of the cache chooses and half certifies, whatever protocols a suite names: the rows have a protocol of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from exitbench.benchmarks.guarantees.certify import Certificate, Promise
from exitbench.benchmarks.guarantees.expected import speed_up_estimate
from exitbench.benchmarks.guarantees.halves import Halves, halves_of
from exitbench.benchmarks.guarantees.losses import RISKS, layer_losses
from exitbench.benchmarks.guarantees.sentences import promised
from exitbench.benchmarks.results.operating_point import within_harm
from exitbench.benchmarks.results.schema import Row
from exitbench.benchmarks.results.status import joined
from exitbench.benchmarks.results.vocabulary import (
    CERTIFIED,
    CERTIFIED_SPEED_UP,
    PROMISED_CONFIDENCE,
    PROMISED_HARMS,
)
from exitbench.benchmarks.scoring.score_store import ScoredCache
from exitbench.errors import InputError

TRAINED = "the network was trained on these rows, so they say nothing about other rows"


def promised_rows(blank: Row, scored: ScoredCache, numbers: Sequence[int], default: int, seed: int) -> list[Row]:
    """The rows of one entry, with its configurations at ``numbers``; ``default`` is the position of the default one.

    A promise that cannot be given is ``undefined``, with what would be needed.
    """
    blank = blank._replace(protocol=CERTIFIED)
    points = [within_harm(harm) for harm in PROMISED_HARMS]
    rows = [blank._replace(measure=CERTIFIED_SPEED_UP, operating_point=point) for point in points]
    kept = [number for number in numbers if not scored.configurations[number].no_promise]
    reason = "" if kept else scored.configurations[numbers[0]].no_promise
    if "test" in scored.trained_on:
        reason = TRAINED
    if not reason:
        samples = scored.samples()
        losses = layer_losses(RISKS["harm"], samples.predictions, samples.labels)
        position = kept.index(numbers[default]) if numbers[default] in kept else 0
        try:
            halves = halves_of(scored, kept, losses, position, seed)
        except InputError as error:  # a cache too small to be halved is no fault of the run
            reason = str(error)
        else:
            return list(certified_rows(rows, halves, scored, kept))
    return [row._replace(status="undefined", reason=joined(reason, row.reason)) for row in rows]


def certified_rows(rows: Sequence[Row], halves: Halves, scored: ScoredCache, numbers: Sequence[int]) -> Iterator[Row]:
    """Each row with what the certifying half allows."""
    half = halves.certifying
    for row in rows:
        promise = Promise(RISKS["harm"], row.operating_point.number / 100, PROMISED_CONFIDENCE)
        certificate = halves.certificate(promise)
        here = row._replace(n=half.outcomes.samples)
        candidate = certificate.candidate
        if candidate is None:
            yield here._replace(status="undefined", reason=joined(not_certified(promise, certificate), row.reason))
            continue
        estimate = speed_up_estimate(half.exits(candidate), half.outcomes, half.evidence.groups)
        chosen = f"certified: {scored.configurations[numbers[candidate.configuration]].parameters}"
        yield here._replace(
            value=estimate.value,
            low=estimate.low,
            high=estimate.high,
            std_err=estimate.std_err,
            threshold=candidate.shared,
            reason=joined(chosen if len(numbers) > 1 else "", row.reason),
        )


def not_certified(promise: Promise, certificate: Certificate) -> str:
    """Why nothing is promised, in one clause."""
    needed = certificate.units_needed
    more = "more rows like these would not help" if needed is None else f"{needed} certifying rows would be needed"
    return f"it cannot be shown with {promise.confidence:.0%} confidence that {promised(promise)}: {more}"
