"""Starting: ``exitbench --help`` against a program of one command."""

from __future__ import annotations

import sys
from pathlib import Path

from exitbench.benchmarks.speed.harness.ratios import Measured, child, in_turn
from exitbench.benchmarks.speed.harness.rows import RecordOne, SpeedRow, Topic

BARE = """\
import typer

app = typer.Typer()


@app.command()
def greet(name: str) -> None:
    "Say hello."
    typer.echo(f"Hello {name}")


app()
"""
ROUNDS = 11
START = SpeedRow("start", "`exitbench --help` / `--help` of a typer program with one command", "lower", goal=2.0)
TOPIC = Topic(
    "Starting",
    f"""
Both are run as processes of their own, {ROUNDS} times in turn; what counts is the processor time of the process,
the interpreter's start included. Verbs import what they need when they are called: a test holds that the help page
loads neither torch nor numpy nor pandas.
""",
    (START,),
)


def test_the_help_page_is_there_at_once(tmp_path: Path, record_ratio: RecordOne) -> None:
    bare = tmp_path / "bare.py"
    bare.write_text(BARE)
    exitbench_command, bare_command = (
        [sys.executable, "-m", "exitbench", "--help"],
        [sys.executable, str(bare), "--help"],
    )

    def compare() -> Measured:
        child(exitbench_command)
        child(bare_command)
        return in_turn(
            lambda: child(exitbench_command).processor, lambda: child(bare_command).processor, ROUNDS
        ).measured()

    record_ratio(START, compare)
