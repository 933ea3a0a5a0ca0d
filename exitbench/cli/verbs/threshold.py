"""``exitbench threshold``: the threshold for a service, with what to expect of it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from exitbench.benchmarks.results.status import Estimate
    from exitbench.benchmarks.thresholds.recommend import Recommendation


def command(
    cache: Annotated[Path, typer.Argument(help="The cache's directory.", show_default=False)],
    signal: Annotated[
        str, typer.Option(help="A signal, such as deebert, or a grid to choose from, such as 'cap[alpha=0.1|1]'.")
    ],
    speed_up: Annotated[float | None, typer.Option(help="The wanted speed-up, such as 2.", show_default=False)] = None,
    max_loss: Annotated[
        float | None, typer.Option(help="The largest loss in points against the final layer.", show_default=False)
    ] = None,
    protocol: Annotated[
        str, typer.Option(help="How expectations are estimated: cross-fit or in-sample.")
    ] = "cross-fit",
    target: TargetOption = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples behind the intervals.", min=2)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of folds and resamples.", min=0)] = 0,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
) -> None:
    """Find the threshold for a wanted speed-up or a largest loss, and what it will cost.

    The threshold is chosen on all samples; speed-up, score and loss are what cross-fitting expects of it on new ones,
    with 95 % intervals. What the samples cannot tell is refused.

    **Examples**

    `exitbench threshold my-cache --signal 'cap[alpha=0.1]' --speed-up 2`

    `exitbench threshold my-cache --signal 'cap[alpha=0.01|0.1|1|10]' --max-loss 0.5 --json`
    """
    fit_cache(off=no_fit_cache)
    from exitbench.benchmarks.thresholds.recommend import asked_point, recommend
    from exitbench.cli.signals_option import load
    from exitbench.cli.unchanged_cache import unchanged_cache

    asked_point(speed_up, max_loss)  # before the cache is opened and signals are loaded
    signals = load(signals_dir).expand(signal)
    recommendation = recommend(
        unchanged_cache(cache, signals),
        signals,
        speed_up=speed_up,
        max_loss=max_loss,
        protocol=protocol,
        resamples=resamples,
        seed=seed,
        target=target_name(target),
    )
    if as_json:
        echo_json(recommendation.to_json())
    else:
        echo(*recommendation_lines(recommendation))


def recommendation_lines(recommendation: Recommendation) -> list[str]:
    """The recommendation for a reader."""
    measure = {"accuracy": "accuracy", "f1": "F1"}[recommendation.measure]
    score, final = with_interval(recommendation.score), recommendation.final_score
    lines = [
        f"{recommendation.text} on {recommendation.cache} ({recommendation.samples} samples)",
        f"exit when the score is {recommendation.exits_when} {recommendation.threshold:.17g}",
        f"speed-up {with_interval(recommendation.speed_up)}x",
        f"{measure} {score}, {final:.2f} at the last layer",
        f"loss {with_interval(recommendation.loss)} points",
        f"expectations by {recommendation.protocol}, 95 % bootstrap intervals",
    ]
    if recommendation.target == "final":
        lines.append("right means: agrees with the last layer")
    return [*lines, recommendation.chosen] if recommendation.chosen else lines


def with_interval(estimate: Estimate) -> str:
    """A value with its interval."""
    return f"{estimate.value:.2f} [{estimate.low:.2f}, {estimate.high:.2f}]"
