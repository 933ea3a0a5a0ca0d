"""The page of the command line, made from the parser that reads it."""

import inspect
from typing import Any

import typer

from exitbench.cli.app import VERBS, build

HEAD = """\
# Command line

One program, one verb for each job: `exitbench VERB --help` shows what stands here. `--debug`, anywhere, shows the
traceback of an error. Exit codes: 0 fine, 1 "no, or incomplete", 2 wrong usage or input (one line says what was
expected and what was found), 130 stopped.
"""


def command_line_page() -> str:
    """Every verb under its heading, with its arguments and options."""
    program: Any = typer.main.get_command(build())
    parts = [HEAD]
    for heading in dict.fromkeys(VERBS.values()):
        parts.append(f"## {heading}\n")
        parts += [verb_section(verb, program.commands[verb]) for verb in VERBS if VERBS[verb] == heading]
    return "\n".join(parts)


def verb_section(verb: str, command: Any) -> str:
    """One verb: what it does, its usage, its words."""
    arguments = [parameter for parameter in command.params if parameter.param_type_name == "argument"]
    options = [parameter for parameter in command.params if parameter.param_type_name == "option"]
    words = " ".join(usage(argument) for argument in arguments)
    lines = [
        f"### `exitbench {verb}`\n",
        f"```\nexitbench {verb} {words}{' ' if words else ''}[OPTIONS]\n```\n",
        inspect.cleandoc(command.help or "") + "\n",
    ]
    rows = [(f"`{usage(argument)}`", argument.help, "") for argument in arguments]
    context = typer.Context(command)
    rows += [(names(option, context), option.help, default(option)) for option in options if option.name != "help"]
    if rows:
        lines.append("| | | default |\n|---|---|---|")
        lines += [f"| {name} | {escaped(text or '')} | {value} |" for name, text, value in rows]
        lines.append("")
    return "\n".join(lines)


def usage(argument: Any) -> str:
    """An argument as it stands in a line of usage."""
    name = argument.metavar or argument.name.upper()
    name = f"{name}..." if argument.nargs == -1 else name
    return name if argument.required else f"[{name}]"


def names(option: Any, context: typer.Context) -> str:
    """The words of an option, with what follows it."""
    words = ", ".join(f"`{word}`" for word in option.opts)
    if option.is_flag:
        return words
    return f"{words} {escaped(option.metavar or option.display_type(context))}"


def default(option: Any) -> str:
    """What holds when an option is left out."""
    value = option.default
    if option.is_flag or value is None or not option.show_default:
        return "required" if option.required else ""
    return f"`{getattr(value, 'value', value)}`"


def escaped(text: str) -> str:
    """Text in a cell of a table."""
    return " ".join(text.split()).replace("|", "&#124;")
