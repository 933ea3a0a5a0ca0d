"""``exitbench watch-drift``: do live answers still exit as the rows did that a policy rests on?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from exitbench.cli.terminal import echo, echo_json


def command(
    policy: Annotated[Path, typer.Argument(help="What `exitbench threshold --out` wrote.", show_default=False)],
    log: Annotated[Path, typer.Argument(help="Answers as `exitbench infer` writes them; `-` reads standard input.")],
    level: Annotated[
        float, typer.Option(help="The probability of a false alarm, however often one looks.", min=1e-12, max=0.5)
    ] = 0.01,
    seed: Annotated[int, typer.Option(help="Seed of how ties are broken.", min=0)] = 0,
    signals_dir: Annotated[
        list[Path] | None, typer.Option("--signals-dir", help="A folder with more signals.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object instead of a line.")] = False,
) -> None:
    """Test whether exit layers and scores of live traffic are still those of the calibration rows.

    One line, and exit code 1 where they are not. A conformal test martingale: the whole log so far may be tested after
    every batch, and false alarms stay below --level for all looks together.

    **Examples**

    `exitbench watch-drift policy.json answers.csv`

    `exitbench watch-drift policy.json answers.jsonl --level 0.001 --json`
    """
    from exitbench.benchmarks.guarantees.exchangeability import DriftTest
    from exitbench.cli.answer_log import logged_exits
    from exitbench.cli.signals_option import load
    from exitbench.errors import InputError
    from exitbench.signals.registry.exit_policy import read_policy

    stored = read_policy(policy, load(signals_dir))
    if not stored.calibration.exit_layers:
        raise InputError(f"{policy}: expected the exits of calibration rows, found none")
    sign = 1.0 if stored.signal.exits_when in ("<", "<=") else -1.0

    def position(layer: int, score: float | None) -> tuple[float, ...]:
        # Later exits stand higher, and less certain ones at the same layer.
        return (float(layer), 0.0 if score is None else sign * score)

    calibration = zip(stored.calibration.exit_layers, stored.calibration.scores, strict=True)
    test = DriftTest([position(*row) for row in calibration], level, seed)
    live = list(logged_exits(log, stored.model.layers))
    if not live:
        raise InputError(f"expected at least one answer in {log}, found none")
    test.take(position(*row) for row in live)
    means = [sum(layer for layer, _ in live) / len(live), sum(stored.calibration.exit_layers) / len(test.calibration)]
    if as_json:
        echo_json(
            {
                "drift": test.alarm is not None,
                "rows": test.rows,
                "alarm_row": test.alarm,
                "evidence": test.wealth,
                "largest_evidence": test.largest,
                "needed": 1 / level,
                "mean_exit_layer": means[0],
                "calibration_mean_exit_layer": means[1],
            }
        )
    else:
        verdict = "no drift" if test.alarm is None else f"drift since row {test.alarm} at the latest"
        echo(
            f"{verdict}: largest evidence {test.largest:.3g} of {1 / level:g} in {test.rows} rows; "
            f"mean exit layer {means[0]:.2f}, {means[1]:.2f} in calibration"
        )
    if test.alarm is not None:
        raise typer.Exit(1)
