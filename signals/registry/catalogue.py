"""Describing the signals of a registry as plain values, for ``exitbench list signals`` and for programs."""

from typing import Any

from exitbench.signals.contract import parameters as text
from exitbench.signals.contract.layer import INPUTS
from exitbench.signals.registry.registry import Registry


def describe(registry: Registry) -> list[dict[str, Any]]:
    """One dictionary for each signal, sorted by key, of values that JSON can hold.

    ``first_exit_layer`` is the one at the default parameters; a ``text`` is the same thing in one short line.
    """
    described = []
    for name in sorted(registry.signals):
        signal = registry.get(name)
        described.append(
            {
                "key": name,
                "title": signal.title,
                "direction": signal.exits_when,
                "inputs": [one for one in INPUTS if one in signal.inputs],
                "parameters": [
                    {
                        "name": one.name,
                        "type": one.type.__name__,
                        "default": one.default,
                        "grid": list(one.grid),
                        "choices": list(one.choices),
                        "help": one.help,
                        "text": parameter_text(one),
                    }
                    for one in text.parameters(signal)
                ],
                "thresholds": str(signal.thresholds),
                "first_exit_layer": signal().first_exit_layer,
                "reference": {
                    "paper": signal.reference.paper,
                    "year": signal.reference.year,
                    "link": signal.reference.link,
                    "text": f"{signal.reference.year} {signal.reference.link}",
                },
                "origin": registry.origin(name),
            }
        )
    return described


def parameter_text(one: text.Parameter) -> str:
    """A parameter at its default, with the values that it is usually tried at.

    >>> parameter_text(text.Parameter("alpha", float, 1.0, (0.1, 1.0), (), 0, None, ""))
    'alpha=1 (0.1|1)'
    """
    tried = "|".join(text.value_text(value) for value in one.choices or one.grid)
    return f"{one.name}={text.value_text(one.default)}" + (f" ({tried})" if tried else "")
