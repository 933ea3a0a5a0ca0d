"""Real, small runs for the tests of the page; each is made once, whichever worker of pytest wants it first."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.questions import Questions
from exitbench.benchmarks.suites.suite import Contest, Suite
from exitbench.cache import CacheWriter, synthetic_cache
from exitbench.cache.format.manifest import Model, Task
from exitbench.reports.page.page import write_page

ALL = (
    "deebert",
    "right-tool",
    "pabee",
    "f-pabee[patience=1|2]",
    "pcee[patience=1|2]",
    "e-lang",
    "nsp",
    "cap[alpha=0.1|1]",
)
HOSTILE = (
    "<script>alert(1)</script>",
    "\"quoted\" 'twice' & <b>bold</b>",
    "long" * 60,
    "اسم من اليمين",
    "🚪🏃 emoji",
    "</script><img src=x onerror=alert(2)>",
)
"""Names that a page must show as they are."""


def suite(caches: Sequence[Path], signals: Sequence[str], **changes: Any) -> Suite:
    """A quick suite over some caches."""
    questions: dict[str, Any] = {"layers": (1, 2), "speed_ups": (2.0, 3.0), "resamples": 20}
    made = Suite(name="small", caches=tuple(caches), signals=tuple(signals), questions=Questions(**questions))
    fields = {field.name for field in dataclasses.fields(Questions)}
    asked = {name: value for name, value in changes.items() if name in fields}
    return dataclasses.replace(made.asking(**asked), **{name: changes[name] for name in changes.keys() - asked.keys()})


def once(factory: pytest.TempPathFactory, name: str, build: Callable[[Path], None]) -> Path:
    """A folder that is built by the first test that wants it; workers of pytest-xdist wait for each other."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"page-{name}"
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            part = folder.with_name(f"{folder.name}-{os.getpid()}.part")
            part.mkdir()
            build(part)
            part.rename(folder)
    return folder


def main_run(factory: pytest.TempPathFactory) -> Path:
    """Two models, three tasks, all eight signals, two protocols; ``report.html`` beside the results."""

    def build(folder: Path) -> None:
        caches = [
            synthetic_cache(folder / "base-sst2", rows=260, layers=6, task="sst2", model="base", seed=1),
            synthetic_cache(folder / "base-mrpc", rows=330, layers=6, task="mrpc", model="base", seed=2, metric="f1"),
            synthetic_cache(folder / "tiny-mnli", rows=310, layers=4, classes=3, task="mnli", model="tiny", seed=3),
        ]
        asked = suite(caches, ALL, findings=Contest("cap", ("e-lang", "deebert")))
        run_suite(asked, folder / "run", arguments=["exitbench", "run", "my suite.toml", "--seed", "0"])
        write_page([folder / "run"], folder / "run" / "report.html")

    return once(factory, "main", build) / "run"


FIFTEEN = (
    "deebert",
    "right-tool",
    "pabee",
    "f-pabee[divergence=jsd,patience=1|2]",
    "f-pabee[divergence=mean-entropy,patience=1|2]",
    "pcee[patience=1|2]",
    *(f"{name}{form}" for name in ("e-lang", "nsp") for form in ("", "[center=true]")),
    *(f"cap[alpha=0.1|1,center={word}]" for word in ("false", "true")),
    "calibrated",
    "meta",
    "meta[target=final]",
)
"""As many signals as the paper suite has, under names as long."""


def fifteen_run(factory: pytest.TempPathFactory) -> Path:
    """Two tasks with three layers in the tables, and fifteen signals; ``report.html`` beside the results."""

    def build(folder: Path) -> None:
        caches = [
            synthetic_cache(folder / task, rows=120, layers=6, classes=3, width=8, task=task, model="base", seed=seed)
            for seed, task in enumerate(("sst2", "mrpc"))
        ]
        asked = {"protocols": ("cross-fit",), "layers": (1, 3, 5), "speed_ups": (2.0,), "resamples": 10, "losses": ()}
        run_suite(suite(caches, FIFTEEN, **asked, deals=1), folder / "run")
        write_page([folder / "run"], folder / "run" / "report.html")

    return once(factory, "fifteen", build) / "run"


SIGNAL = '''"""A signal with a hostile title."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from exitbench import Direction, ExitSignal, Input, Layer, Reference


@dataclass(frozen=True)
class Hostile{number}(ExitSignal):
    """The largest logit, bent a little differently in each file."""

    name: ClassVar[str] = "hostile-{number}"
    title: ClassVar[str] = {title!r}
    reference: ClassVar[Reference] = Reference({title!r}, 2020, "https://example.org/?<b>&'")
    exits_when: ClassVar[Direction] = ">="
    inputs: ClassVar[frozenset[Input]] = frozenset({{"logits"}})
    shift_invariant: ClassVar[bool] = False

    def score(self, layer: Layer) -> Tensor:
        logits = layer.logits64
        return logits.max(dim=1).values + 0.{number} * logits[:, 0]
'''


def hostile_run(factory: pytest.TempPathFactory) -> Path:
    """Signals, task, model and classes whose names try to be markup."""

    def build(folder: Path) -> None:
        import torch

        (folder / "signals").mkdir()
        for number, title in enumerate(HOSTILE):
            (folder / "signals" / f"hostile_{number}.py").write_text(SIGNAL.format(number=number, title=title))
        plain = synthetic_cache(folder / "plain", rows=80, layers=4, classes=3, seed=5)
        from exitbench.cache import Cache

        cache = Cache(plain)
        logits = torch.stack([cache.logits(layer) for layer in range(1, 5)])
        with CacheWriter(
            folder / "hostile",
            task=Task(HOSTILE[0], HOSTILE[1:4], "accuracy"),
            split="dev",
            model=Model(HOSTILE[5], None, 4, None, "none", "none"),
            heads=None,
            feature_dtype=None,
            provenance={"note": HOSTILE[0]},
        ) as writer:
            for _ in writer.pending(80):
                writer.add(labels=torch.as_tensor(cache.labels), logits=logits)
        names = [f"hostile-{number}" for number in range(len(HOSTILE))]
        chosen = suite([folder / "hostile"], ["deebert", *names], name="<i>suite", protocols=("in-sample",))
        run_suite(chosen, folder / "run", directories=[folder / "signals"], arguments=["exitbench", "run", HOSTILE[5]])
        write_page([folder / "run"], folder / "run" / "report.html")

    return once(factory, "hostile", build) / "run"
