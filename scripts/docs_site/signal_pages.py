"""A page for each signal, made from its docstring and what the registry knows; and one that lists them all."""

import inspect
import sys
from pathlib import Path
from typing import Any

from docstring_markdown import as_markdown

from exitbench.signals import ExitSignal
from exitbench.signals.contract.parameters import learned_fields
from exitbench.signals.registry.catalogue import catalogue_of
from exitbench.signals.registry.discovery import load_registry

HEAD = """\
# Signals

Every signal is one number per sample and layer, and a direction. The registry holds these; each has a page, made from
its file. A file of your own in a folder makes it one more: [Adding a signal](../adding-a-signal.md).

| signal | name | exits when | reads | learns |
|---|---|---|---|---|
"""

STORED = {"logits", "offset_norm", "head", "ids"}
"""What every cache of the repository holds."""


def signal_pages() -> dict[str, str]:
    """The pages by where they lie in the site, the list first."""
    registry = load_registry()
    described = {signal["key"]: signal for signal in catalogue_of(registry)}
    page_of = {module_of(registry.get(key)): f"{key}.md" for key in described}
    rows = [row(signal, registry.get(key)) for key, signal in described.items()]
    pages = {"signals/index.md": HEAD + "".join(rows)}
    return pages | {f"signals/{key}.md": page(described[key], registry.get(key), page_of) for key in described}


def module_of(signal: type[ExitSignal]) -> str:
    """The name of a signal's file without its ending."""
    return signal.__module__.rpartition(".")[2]


def row(signal: dict[str, Any], made_by: type[ExitSignal]) -> str:
    """A signal in the list."""
    learns = "yes" if learned_fields(made_by) else ""
    reads = ", ".join(signal["inputs"])
    return f"| [{signal['title']}]({signal['key']}.md) | `{signal['key']}` | {exits(signal)} | {reads} | {learns} |\n"


def exits(signal: dict[str, Any]) -> str:
    """When a sample exits, in words."""
    how = {"<": "below", "<=": "at most at", ">": "above", ">=": "at least at"}[signal["direction"]]
    return f"{how} the threshold"


def page(signal: dict[str, Any], made_by: type[ExitSignal], page_of: dict[str, str]) -> str:
    """The page of one signal."""
    docstring = inspect.getdoc(sys.modules[made_by.__module__]) or ""
    reference = signal["reference"]
    link = f"[{reference['link']}]({reference['link']})" if reference["link"] else ""
    facts = {
        "On the command line": f"`{signal['key']}`",
        "A sample exits when the score is": exits(signal),
        "Thresholds": signal["thresholds"],
        "First layer that may exit": signal["first_exit_layer"],
        "Reads": ", ".join(f"`{name}`" for name in signal["inputs"]),
        "Learns from calibration samples": "yes" if learned_fields(made_by) else "no",
        "Published": f"*{reference['paper']}*, {reference['year']}. {link}",
    }
    source = Path(inspect.getsourcefile(made_by) or "").read_text(encoding="utf-8")
    parts = [
        f"# {signal['title']}",
        as_markdown(docstring, page_of),
        "## What it declares\n\n| | |\n|---|---|\n" + "\n".join(f"| {name} | {text} |" for name, text in facts.items()),
        *([parameters(signal)] if signal["parameters"] else []),
        *([forms(made_by)] if made_by.forms else []),
        *([example(signal)] if set(signal["inputs"]) <= STORED else []),
        '??? note "The file"\n\n' + indented(f"```python\n{source.rstrip()}\n```"),
    ]
    return "\n\n".join(parts) + "\n"


def example(signal: dict[str, Any]) -> str:
    """A command that shows the signal at work."""
    return f"```sh\nexitbench run mpnet-base-sst2-dev --signals {signal['key']},deebert\n```"


def parameters(signal: dict[str, Any]) -> str:
    """The parameters as a table."""
    head = "## Parameters\n\n| parameter | default | usually tried | what it is |\n|---|---|---|---|\n"
    rows = []
    for parameter in signal["parameters"]:
        default = parameter["text"].partition(" ")[0].partition("=")[2]
        tried = ", ".join(f"`{value}`" for value in parameter["choices"] or parameter["grid"])
        rows.append(f"| `{parameter['name']}` | `{default}` | {tried} | {parameter['help']} |")
    return head + "\n".join(rows)


def forms(made_by: type[ExitSignal]) -> str:
    """Where text and code of the publication compute different scores."""
    head = "## Published forms\n\n| in | parameters | score |\n|---|---|---|\n"
    rows = [f"| {form.source} | `{form.parameters.replace('|', '&#124;')}` | {form.score} |" for form in made_by.forms]
    return head + "\n".join(rows)


def indented(text: str) -> str:
    """Lines four columns further in, as the contents of a box."""
    return "\n".join(f"    {line}" if line else "" for line in text.splitlines())
