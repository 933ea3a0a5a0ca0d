"""What ``run.json`` must hold before anything reads it: a folder of results may come from anywhere."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from exitbench.errors import one_line


class _Part(BaseModel):
    """A part of the record; further keys are nobody's concern here."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Suite(_Part):
    name: str
    caches: list[str] = Field(min_length=1)
    signals: list[str]
    protocols: list[str]
    speed_ups: list[float]
    primary_speed_up: float
    rates_speed_up: float
    losses: list[float]
    resamples: int
    seed: int
    findings: dict[str, Any] | None


class _Cache(_Part):
    manifest_sha256: str
    model: str
    layers: int
    task: str
    split: str
    metric: str
    classes: list[str]
    rows: int
    table_layers: list[int]
    # Later than the first runs that were kept.
    target: str = "labels"
    role: str = "test"
    costs: list[float] | None = None
    protocols: list[str] | None = None
    left_out: list[list[str]] = []
    network: str = ""
    network_seed: int | None = None
    network_note: str = ""


class _Entry(_Part):
    signal: str
    parameters: str
    title: str
    text: str
    reference: dict[str, Any]


class _Conformance(_Part):
    passed: int
    exceptions: list[str]
    failures: list[str]


class _Failure(_Part):
    label: str
    reason: str


class _Record(_Part):
    complete: bool
    suite: _Suite
    caches: dict[str, _Cache]
    entries: list[_Entry]
    # What a run that was kept for later leaves out.
    arguments: list[str] = []
    failures: list[_Failure] = []
    notes: list[str] = []
    conformance: dict[str, _Conformance] = {}
    versions: dict[str, Any] = {}
    machine: dict[str, Any] = {}
    git: dict[str, Any] | None = None


def record_problem(record: dict[str, Any]) -> str:
    """The first thing that is wrong with a record, in one clause; empty for a good one."""
    try:
        _Record.model_validate(record)
    except ValidationError as error:
        problem = error.errors(include_url=False, include_input=False)[0]
        return f"{'.'.join(map(str, problem['loc']))}: {problem['msg'].lower()}"
    except RecursionError as error:
        return one_line(error)
    unlisted = [name for name in record["suite"]["caches"] if name not in record["caches"]]
    return f"suite.caches: {unlisted[0]!r} is not among the caches" if unlisted else ""
