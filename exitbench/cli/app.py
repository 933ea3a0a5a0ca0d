"""The command line: one program, one file per verb, one place where errors become a single line.

Nothing heavy is imported here or at the top of a verb's file, so that ``exitbench --help`` starts
at once; a verb imports what it needs when it is called.
"""

import errno
import functools
import importlib
import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from exitbench.cli.crash_place import crash_lines
from exitbench.cli.ctrl_c import STOPPED, stopped_like_ctrl_c, stopping
from exitbench.cli.standard_streams import lenient_streams
from exitbench.cli.terminal import echo
from exitbench.errors import InputError, one_line
from exitbench.executors.set_aside import OWN_PROCESS

VERBS = {
    "run": "Run",
    "report": "Run",
    "site": "Run",
    "table": "Run",
    "figure": "Run",
    "compare": "Run",
    "check": "Run",
    "threshold": "Run",
    "power": "Run",
    "list": "Look around",
    "watch": "Signals",
    "score": "Signals",
    "new-signal": "Signals",
    "test-signal": "Signals",
    "import": "Caches",
    "verify": "Caches",
    "inspect": "Caches",
    "compact": "Caches",
    "derive": "Caches",
    "cascade": "Caches",
    "push": "Caches",
    "pull": "Caches",
    "train": "Models",
    "collect": "Models",
    "infer": "Models",
    "watch-drift": "Models",
    "cost": "Models",
}
"""Every verb in the order of the help page, with its heading."""

FILES = {"list": "list_", "import": "import_", "test-signal": "check_signal"}
"""Verbs whose file in ``verbs/`` has another name: Python has two of the words, and pytest collects ``test_*.py``."""

WRITERS = {
    *("run", "report", "site", "table", "figure", "score", "new-signal"),
    *("import", "compact", "derive", "cascade", "train", "collect", "push", "pull"),
}
"""Verbs whose result is in files: they have done their work even if nobody can read what they print."""

DEFECT = 70
"""Exit code of an error that exitbench did not foresee."""


def print_version(requested: bool) -> None:
    """Print the version and stop, for ``--version``."""
    if requested:
        from importlib.metadata import version

        echo(f"exitbench {version('exitbench')}")
        raise typer.Exit


def options(
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error; may stand anywhere.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=print_version, is_eager=True, help="Show the version and stop.")
    ] = False,
) -> None:
    """Benchmark early-exit signals on cached outputs of multi-exit networks."""


def build(verbs: Iterable[str] = VERBS) -> typer.Typer:
    """The program with some verbs, by default all, each registered under its heading."""
    app = typer.Typer(rich_markup_mode="markdown", pretty_exceptions_enable=False)
    app.callback()(options)
    for verb in verbs:
        heading = VERBS[verb]
        name = FILES.get(verb, verb.replace("-", "_"))
        module = importlib.import_module(f"exitbench.cli.verbs.{name}")
        app.command(verb, rich_help_panel=heading)(stopping()(module.command))
    return app


@functools.cache
def whole_command() -> Callable[..., object]:
    """The program as it parses words, which takes a while to make from the signatures of all verbs."""
    return typer.main.get_command(build())


@functools.cache
def command_of(verb: str) -> Callable[..., object]:
    """The program as one who names this verb sees it: the others' files are not even opened."""
    return typer.main.get_command(build((verb,)))


def main(arguments: list[str] | None = None) -> None:
    """Run the program; exit code 0 fine, 1 "no, or incomplete", 2 wrong usage or input."""
    words = sys.argv[1:] if arguments is None else arguments
    debug = "--debug" in words
    words = [word for word in words if word != "--debug"] or ["--help"]
    OWN_PROCESS.begin()
    code = STOPPED
    try:
        with stopped_like_ctrl_c(), lenient_streams() as output:
            code = exit_code(words, debug=debug)
            output.flush()
            # A reader that went away (`| head`) has what it asked for; anything else lost a part of the output.
            if output.error is not None and output.error.errno != errno.EPIPE:
                echo(f"warning: standard output: {str(output.error.strerror).lower()}; not all was printed", err=True)
                code = code or int(words[0] not in WRITERS)
    except KeyboardInterrupt:  # when the verb had ended, or before it began
        if debug:
            raise
    sys.exit(code)


def exit_code(words: list[str], *, debug: bool) -> int:
    """What the program ends with; an error is printed in one line, or raised with ``debug``."""
    try:
        refuse_other_encodings(words)
        parse = command_of(words[0]) if words[0] in VERBS else whole_command()
        code = parse(args=words, prog_name="exitbench", standalone_mode=False)
    except KeyboardInterrupt:  # before the verb began
        code = STOPPED
    except Exception as error:
        if debug:
            raise
        lines, code = lines_and_code(error)
        echo(*lines, err=True)
    return code if isinstance(code, int) else 0


def refuse_other_encodings(words: list[str]) -> None:
    """An InputError for an argument that is not UTF-8: no record and no library could hold such a path."""
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:
            raise InputError(f"expected arguments in UTF-8, found {word!r}") from None


def lines_and_code(error: Exception) -> tuple[list[str], int]:
    """The one line that is printed for an error, and its exit code; for a crash of a user's signal where it was."""
    if isinstance(error, typer.TyperException):
        return [f"error: {' '.join(error.format_message().split())}"], 2
    if isinstance(error, InputError):
        first, *source = crash_lines(error) or [str(error)]
        return [f"error: {first}", *source], 2
    if isinstance(error, OSError):
        where = f"{error.filename}: " if error.filename else ""
        return [f"error: {where}{(error.strerror or str(error)).lower()}"], 2
    return [f"defect in exitbench: {type(error).__name__}: {one_line(error)}; --debug shows where"], DEFECT
