"""The command line: one program, one file per verb, one place where errors become a single line.

Nothing heavy is imported here or at the top of a verb's file, so that ``exitbench --help`` starts
at once; a verb imports what it needs when it is called.
"""

import importlib
import sys
from typing import Annotated

import typer

from exitbench.errors import InputError, one_line

VERBS = {
    "run": "Run",
    "report": "Run",
    "compare": "Run",
    "check": "Run",
    "threshold": "Run",
    "list": "Look around",
    "score": "Signals",
    "new-signal": "Signals",
    "test-signal": "Signals",
    "import": "Caches",
    "verify": "Caches",
    "inspect": "Caches",
    "compact": "Caches",
    "train": "Models",
    "collect": "Models",
    "infer": "Models",
    "cost": "Models",
}
"""Every verb in the order of the help page, with its heading."""

FILES = {"list": "list_", "import": "import_", "test-signal": "check_signal"}
"""Verbs whose file in ``verbs/`` has another name: Python has two of the words, and pytest collects ``test_*.py``."""

DEFECT = 70
"""Exit code of an error that exitbench did not foresee."""


def version_wanted(wanted: bool) -> None:
    """Print the version and stop, for ``--version``."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"exitbench {version('exitbench')}")
        raise typer.Exit


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=version_wanted, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Benchmark early-exit signals on cached outputs of multi-exit networks."""


def build() -> typer.Typer:
    """The whole program, every verb registered under its heading."""
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(options)
    for verb, heading in VERBS.items():
        name = FILES.get(verb, verb.replace("-", "_"))
        module = importlib.import_module(f"exitbench.cli.verbs.{name}")
        app.command(verb, rich_help_panel=heading)(module.command)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the program; exit code 0 fine, 1 "no, or incomplete", 2 wrong usage or input."""
    words = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    debug = "--debug" in words
    try:
        code = build()(args=[word for word in words if word != "--debug"], prog_name="exitbench", standalone_mode=False)
    except (InputError, typer.TyperException) as error:
        if debug:
            raise
        message = error.format_message() if isinstance(error, typer.TyperException) else str(error)
        sys.stderr.write(f"error: {' '.join(message.split())}\n")
        sys.exit(2)
    except OSError as error:
        if debug:
            raise
        where = f"{error.filename}: " if error.filename else ""
        sys.stderr.write(f"error: {where}{(error.strerror or str(error)).lower()}\n")
        sys.exit(2)
    except Exception as error:
        if debug:
            raise
        sys.stderr.write(f"defect in exitbench: {type(error).__name__}: {one_line(error)}; --debug shows where\n")
        sys.exit(DEFECT)
    sys.exit(code if isinstance(code, int) else 0)
