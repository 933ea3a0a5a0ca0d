"""``exitbench threshold``: the threshold for a service, with what to expect of it, or with a guarantee."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from exitbench.cli.cache_argument import named_cache
from exitbench.cli.fit_cache_option import FitCacheOption, fit_cache
from exitbench.cli.formats.threshold_lines import recommendation_lines
from exitbench.cli.options.out_option import ForceOption, refuse_out
from exitbench.cli.target_option import TargetOption, target_name
from exitbench.cli.terminal import echo, echo_json

if TYPE_CHECKING:
    from exitbench.benchmarks.guarantees.certify import Promise


class RiskOption(StrEnum):
    """What can be promised; ``f1`` is here to be refused with its reason."""

    consistency = "consistency"
    harm = "harm"
    gap = "gap"
    error = "error"
    brier = "brier"
    f1 = "f1"


class ProcedureOption(StrEnum):
    """How it is promised."""

    learn_then_test = "learn-then-test"
    risk_control = "risk-control"
    conformal_consistency = "conformal-consistency"


class ThresholdsOption(StrEnum):
    """One threshold for all layers, or one for each."""

    shared = "shared"
    quota = "quota"
    greedy = "greedy"


def command(
    cache: Annotated[str, typer.Argument(help="A cache, by name or path.", show_default=False)],
    signal: Annotated[
        list[str],
        typer.Option(
            help="A signal, such as deebert, or a grid, 'cap[alpha=0.1|1]'; may be repeated: the best is taken.",
            show_default=False,
        ),
    ],
    speed_up: Annotated[float | None, typer.Option(help="The wanted speed-up, such as 2.", show_default=False)] = None,
    max_loss: Annotated[
        float | None, typer.Option(help="The largest loss in points against the final layer.", show_default=False)
    ] = None,
    guarantee: Annotated[bool, typer.Option("--guarantee", help="Promise a risk instead of estimating it.")] = False,
    risk: Annotated[
        RiskOption | None,
        typer.Option(
            help="With --guarantee: answers that differ from the last layer's (consistency, the default), right ones "
            "lost (harm), loss of accuracy (gap), wrong ones (error), or loss of Brier score (brier).",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[
        float | None,
        typer.Option(
            help="With --guarantee: the largest risk, a share of rows; 0.01, the default, is a point.",
            show_default=False,
        ),
    ] = None,
    confidence: Annotated[
        float | None,
        typer.Option(help="With --guarantee: how sure the promise is; by default 0.9.", show_default=False),
    ] = None,
    procedure: Annotated[
        ProcedureOption | None,
        typer.Option(
            help="With --guarantee: learn-then-test (the default), or a promise on average by risk-control or "
            "conformal-consistency.",
            show_default=False,
        ),
    ] = None,
    thresholds: Annotated[
        ThresholdsOption, typer.Option(help="One threshold for all layers, or one each by quota or greedy search.")
    ] = ThresholdsOption.shared,
    protocol: Annotated[
        str, typer.Option(help="How expectations are estimated: cross-fit or in-sample.")
    ] = "cross-fit",
    target: TargetOption = None,
    resamples: Annotated[int, typer.Option(help="Bootstrap resamples behind the intervals.", min=2)] = 1000,
    seed: Annotated[int, typer.Option(help="Seed of folds, halves and resamples.", min=0)] = 0,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    no_fit_cache: FitCacheOption = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of lines.")] = False,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write an exit policy for a service, such as policy.json.", show_default=False),
    ] = None,
    force: ForceOption = False,
) -> None:
    """Find the threshold for a wanted speed-up, a largest loss or both, or one that keeps a promise.

    Without --guarantee the threshold is chosen on all samples; speed-up, score and loss are what cross-fitting expects
    of it on new ones, with 95 % intervals. What the samples cannot tell is refused. With --guarantee half of the
    samples choose and the other half certify, and the answer may be: do not exit.

    **Examples**

    `exitbench threshold my-cache --signal 'cap[alpha=0.1]' --speed-up 2 --max-loss 0.5`

    `exitbench threshold my-cache --signal deebert --signal e-lang --max-loss 0.5 --json`

    `exitbench threshold my-cache --signal e-lang --guarantee --risk harm --limit 0.01 --out policy.json`
    """
    fit_cache(off=no_fit_cache)
    from exitbench.cli.loading.declared_names import refuse_unknown_names

    refuse_unknown_names(signal, signals_dir or [])
    from exitbench.benchmarks.thresholds.guarantee import guaranteed_threshold
    from exitbench.benchmarks.thresholds.recommend import asked_point, recommend
    from exitbench.cli.signals_option import load
    from exitbench.cli.unchanged_cache import unchanged_cache
    from exitbench.errors import InputError

    if out is not None:
        refuse_out(out, force=force)
    promise = None
    if guarantee:
        if speed_up is not None or max_loss is not None:
            raise InputError("--guarantee promises a risk up to --limit; it takes no --speed-up and no --max-loss")
        promise = asked_promise(risk, limit, confidence, procedure)
    else:
        given = {"--risk": risk, "--limit": limit, "--confidence": confidence, "--procedure": procedure}
        for name, value in given.items():
            if value is not None:
                raise InputError(f"{name} says what is promised; ask for it with --guarantee")
        asked_point(speed_up, max_loss)  # before the cache is opened and signals are loaded
    registry = load(signals_dir)
    entries = [registry.expand(text) for text in signal]
    signals = [each for entry in entries for each in entry]
    opened = unchanged_cache(named_cache(cache), signals)
    if promise is not None:
        recommendation = guaranteed_threshold(
            opened, entries, promise, schedule=thresholds.value, seed=seed, target=target_name(target)
        )
    else:
        recommendation = recommend(
            opened,
            signals,
            speed_up=speed_up,
            max_loss=max_loss,
            protocol=protocol,
            resamples=resamples,
            seed=seed,
            schedule=thresholds.value,
            target=target_name(target),
        )
    if out is not None:
        from exitbench.benchmarks.thresholds.policy_of import policy_of
        from exitbench.signals.registry.exit_policy import write_policy

        write_policy(out, policy_of(recommendation, registry.from_json(recommendation.signal), opened))
        echo(f"policy in {out}", err=True)
    if as_json:
        echo_json(recommendation.to_json())
    else:
        echo(*recommendation_lines(recommendation))


def asked_promise(
    risk: RiskOption | None, limit: float | None, confidence: float | None, procedure: ProcedureOption | None
) -> Promise:
    """The promise that the options ask for; an InputError for F1, which no such promise is about."""
    from exitbench.benchmarks.guarantees.certify import Promise
    from exitbench.benchmarks.guarantees.losses import NO_F1, RISKS
    from exitbench.errors import InputError

    if risk is RiskOption.f1:
        raise InputError(f"no guarantee for F1: {NO_F1}")
    return Promise(
        RISKS["consistency" if risk is None else risk.value],
        0.01 if limit is None else limit,
        0.9 if confidence is None else confidence,
        "learn-then-test" if procedure is None else procedure.value,
    )
