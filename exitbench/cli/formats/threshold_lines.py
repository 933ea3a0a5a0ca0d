"""A recommended threshold as lines for a reader."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from exitbench.benchmarks.results.status import Estimate
    from exitbench.benchmarks.thresholds.recommendation import Guarantee, Recommendation
    from exitbench.signals.registry.exit_policy import Threshold


def recommendation_lines(recommendation: Recommendation) -> list[str]:
    """Signal, threshold, what is promised, what to expect, and how that was found."""
    from exitbench.benchmarks.thresholds.recommendation import ESTIMATE_ONLY

    measure = {"accuracy": "accuracy", "f1": "F1"}[recommendation.measure]
    score, final = interval_text(recommendation.score), recommendation.final_score
    guarantee = recommendation.guarantee
    lines = [
        f"{recommendation.text} on {recommendation.cache} ({recommendation.samples} samples)",
        threshold_line(recommendation.exits_when, recommendation.threshold),
        *([] if guarantee is None else guarantee_lines(guarantee)),
        f"speed-up {interval_text(recommendation.speed_up)}x",
        f"{measure} {score}, {final:.2f} at the last layer",
        f"loss {interval_text(recommendation.loss)} points",
    ]
    if guarantee is None:
        lines.append(f"{ESTIMATE_ONLY}: expectations by {recommendation.protocol}, 95 % bootstrap intervals")
    else:
        lines.append("speed-up, score and loss: estimates from the certifying rows, with 95 % intervals")
    if recommendation.target == "final":
        lines.append("right means: agrees with the last layer")
    return [*lines, recommendation.chosen] if recommendation.chosen else lines


def threshold_line(exits_when: str, threshold: Threshold) -> str:
    """When to exit, at every layer or at each."""
    if threshold is None:
        return "do not exit"
    if isinstance(threshold, float):
        return f"exit when the score is {exits_when} {threshold:.17g}"
    levels = [
        f"{layer}: never" if level is None else f"{layer}: {level:.17g}" for layer, level in enumerate(threshold, 1)
    ]
    return f"exit when the score is {exits_when} the layer's threshold: {', '.join(levels)}"


def guarantee_lines(guarantee: Guarantee) -> list[str]:
    """The sentence of a guarantee, and what it rests on."""
    steps = "" if guarantee.grid is None else f"; {guarantee.passed} of {guarantee.grid} candidates passed"
    p_value = "" if guarantee.p_value is None else f", p = {guarantee.p_value:.3g} at the {end_of(guarantee)}"
    return [
        guarantee.sentence,
        f"{guarantee.procedure} ({guarantee.method}); {guarantee.rows_choose} rows to choose, "
        f"{guarantee.rows_certify} to certify{steps}{p_value}",
    ]


def end_of(guarantee: Guarantee) -> str:
    """Which candidate the p-value belongs to."""
    return "last of them" if guarantee.passed else "first"


def interval_text(estimate: Estimate) -> str:
    """A value with its interval."""
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
