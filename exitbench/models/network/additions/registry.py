"""Additions by their text form."""

from __future__ import annotations

from exitbench.errors import InputError, did_you_mean
from exitbench.models.network.additions.adapters import AdapterExits
from exitbench.models.network.additions.contract import AddedModule, ExitAddition, NetworkSizes
from exitbench.models.network.additions.hazard import HazardExits
from exitbench.models.network.additions.lte import LearnedExit
from exitbench.models.network.additions.past_future import PastFutureExits
from exitbench.models.network.additions.policy import PolicyExits
from exitbench.signals.registry import text_form

ADDITIONS: dict[str, type[ExitAddition]] = {
    addition.name: addition for addition in (LearnedExit, HazardExits, PolicyExits, PastFutureExits, AdapterExits)
}


def added_module(written: str, sizes: NetworkSizes) -> AddedModule:
    """The module that a text such as ``hazard[blocks=3]`` stands for; an empty text adds nothing."""
    if not written:
        return AddedModule()
    name, values = text_form.parse(written, "addition")
    if name not in ADDITIONS:
        known = ", ".join(sorted(ADDITIONS))
        raise InputError(f"unknown addition {name!r}.{did_you_mean(name, ADDITIONS)} Known: {known}.")
    settings = text_form.expand(ADDITIONS[name], values)
    if len(settings) != 1:
        raise InputError(f"expected one addition, found a grid of {len(settings)}: {written}")
    return settings[0].build(sizes)
