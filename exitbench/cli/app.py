"""The command line: one program, one file per verb, one place where errors become a single line.

Nothing heavy is imported here or at the top of a verb's file, so that ``exitbench --help`` starts
at once; a verb imports what it needs when it is called.
"""

import importlib
import sys
from typing import Annotated

import typer

from exitbench.errors import InputError

VERBS = {
    "list": "Look around",
    "import": "Caches",
    "verify": "Caches",
    "inspect": "Caches",
    "compact": "Caches",
}
"""Every verb in the order of the help page, with its heading; ``list`` lives in ``list_.py`` and so on."""

PYTHON_WORDS = {"list", "import"}
"""Verbs whose file takes a trailing underscore because Python has the word already."""


def version_wanted(wanted: bool) -> None:
    """Print the version and stop, for ``--version``."""
    if wanted:
        from importlib.metadata import version

        typer.echo(f"exitbench {version('exitbench')}")
        raise typer.Exit


def options(
    context: typer.Context,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=version_wanted, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Benchmark early-exit signals on cached outputs of multi-exit networks."""
    context.obj = {"debug": debug}


def build() -> typer.Typer:
    """The whole program, every verb registered under its heading."""
    app = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(options)
    for verb, heading in VERBS.items():
        name = verb.replace("-", "_") + ("_" if verb in PYTHON_WORDS else "")
        module = importlib.import_module(f"exitbench.cli.{name}")
        app.command(verb, rich_help_panel=heading)(module.command)
    return app


def main(arguments: list[str] | None = None) -> None:
    """Run the program; exit code 0 fine, 1 "no, or incomplete", 2 wrong usage or input."""
    words = sys.argv[1:] if arguments is None else arguments
    try:
        build()(args=words, prog_name="exitbench")
    except InputError as error:
        if "--debug" in words:
            raise
        sys.stderr.write(f"error: {error}\n")
        sys.exit(2)
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(130)
