"""A certificate in words: what is promised, on which conditions, or why nothing can be."""

from __future__ import annotations

from exitbench.benchmarks.guarantees.certify import Certificate, Promise

NOT_EVEN_THE_LAST_LAYER = "not even the full network keeps this"
NOT_SHOWN_OF_THE_LAST_LAYER = "that the full network keeps this cannot be shown either"
"""Where it does on these rows, but they are too few to say so."""

CONDITIONS = (
    "It holds for rows that are drawn as those of the cache were and answered by the same network with the same "
    "preprocessing"
)


def promised(promise: Promise) -> str:
    """The risk and its limit."""
    if promise.risk.name == "gap":
        limit = f"{100 * promise.limit:g} point{'' if promise.limit == 0.01 else 's'}"
    else:
        limit = f"{promise.limit:g}" if promise.risk.name == "brier" else f"{100 * promise.limit:g}%"
    return promise.risk.words.format(limit=limit)


def of_rows(units: int, rows: int) -> str:
    """How many rows are tested, and in how many groups they come."""
    return (
        f"{rows} certifying rows" if units == rows else f"{rows} certifying rows in {units} groups, each counted once"
    )


def with_confidence(promise: Promise) -> str:
    """How sure the promise is: with a confidence, or on average."""
    if promise.procedure == "learn-then-test":
        return f"with {100 * promise.confidence:g}% confidence"
    return "on average over draws of certifying rows and new ones"


def sentence(
    promise: Promise,
    certificate: Certificate,
    *,
    units: int,
    rows: int,
    rows_needed: int | None,
    looks: int,
    f1: bool,
) -> str:
    """What is promised, followed by its conditions; or "do not exit" with the reason and what would be needed.

    ``units`` groups or rows among the certifying ``rows`` are independent; ``looks`` signals were looked at; ``f1``
    says that the task is judged by F1, which this is not about.
    """
    start, tested = with_confidence(promise), of_rows(units, rows)
    if certificate.candidate is None:
        reason = f"{tested} cannot show, {start}, that {promised(promise)}"
        if certificate.full_network_fails:
            fails = NOT_EVEN_THE_LAST_LAYER if rows_needed is None else NOT_SHOWN_OF_THE_LAST_LAYER
            return f"Do not exit; {fails}: {reason}, at the last layer as little. {needs(rows_needed)}"
        return f"Do not exit: {reason} at any threshold that lets something exit. {needs(rows_needed)}"
    several = "" if looks == 1 else f"; {looks} signals were looked at{price(promise, looks)}"
    accuracy = "; it is about rows, as accuracy is, and not about F1" if f1 else ""
    return f"{start[0].upper()}{start[1:]}, {promised(promise)}. {CONDITIONS} (tested on {tested}{several}{accuracy})."


def needs(rows: int | None) -> str:
    """How many rows would do."""
    if rows is None:
        return "More rows like these would not help."
    return f"About {rows} rows in all, half of them to certify, would be needed if further ones were like these."


def price(promise: Promise, looks: int) -> str:
    """What it cost to look at several signals."""
    if promise.procedure != "learn-then-test":
        return ", and one was chosen on the choosing rows, before any certifying row was looked at"
    whole = 100 * promise.error_probability
    return f", each tested at {whole / looks:.3g}% instead of {whole:g}%"
