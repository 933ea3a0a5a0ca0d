"""Describing the signals of a registry as plain values, for ``exitbench list signals`` and for programs."""

from typing import Any

from exitbench.signals.contract.layer import INPUTS, OUTPUT, output_names
from exitbench.signals.contract.parameters import Parameter, parameters, value_text
from exitbench.signals.registry.registry import Registry


def catalogue_of(registry: Registry) -> list[dict[str, Any]]:
    """One dictionary for each signal, sorted by key, of values that JSON can hold.

    ``inputs`` and ``first_exit_layer`` are those at the default parameters; a ``text`` says the same in one short line.
    """
    described = []
    for name in sorted(registry.signals):
        signal = registry.get(name)
        default = signal()
        described.append(
            {
                "key": name,
                "title": signal.title,
                "direction": signal.exits_when,
                "inputs": [
                    *(name for name in INPUTS if name in default.inputs),
                    *(OUTPUT + name for name in output_names(default.inputs)),
                ],
                "parameters": [
                    {
                        "name": parameter.name,
                        "type": parameter.type.__name__,
                        "default": parameter.default,
                        "grid": list(parameter.grid),
                        "choices": list(parameter.choices),
                        "help": parameter.help,
                        "text": parameter_text(parameter),
                    }
                    for parameter in parameters(signal)
                ],
                "thresholds": str(signal.thresholds),
                "first_exit_layer": default.first_exit_layer,
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


def parameter_text(parameter: Parameter) -> str:
    """A parameter at its default, with the values that it is usually tried at.

    >>> parameter_text(Parameter("alpha", float, 1.0, (0.1, 1.0), (), 0, None, ""))
    'alpha=1 (0.1|1)'
    """
    tried = "|".join(value_text(value) for value in parameter.choices or parameter.grid)
    return f"{parameter.name}={value_text(parameter.default)}" + (f" ({tried})" if tried else "")
