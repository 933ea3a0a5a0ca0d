"""A signal that is slow on one cache holds up no other cache on this machine's pool, however small the caches are."""

from pathlib import Path

import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.run.stages import may_take_long
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.executors.local_pool import Workers
from exitbench.signals.registry.discovery import load_registry

pytestmark = pytest.mark.long

SLOW = '''
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from exitbench import ExitSignal, Reference

@dataclass(frozen=True)
class Slow(ExitSignal):
    """On the cache with 70 rows it waits until another cache is compared, or fails."""

    name: ClassVar[str] = "slow"
    title: ClassVar[str] = "Slow"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar[str] = "<"
    inputs: ClassVar[frozenset] = frozenset({"logits"})

    def score(self, layer):
        units, end = Path(__file__).parent.parent / "out/.units", time.monotonic() + 60
        while len(layer.logits) == 70 and not list(units.glob("compare-*/done.json")):
            if time.monotonic() > end:
                raise RuntimeError("no other cache was compared")
            time.sleep(0.02)
        return layer.logits64[:, 0]
'''


@pytest.mark.process
def test_a_slow_signal_on_one_cache_holds_up_no_other_cache(tmp_path: Path) -> None:
    (tmp_path / "signals").mkdir()
    (tmp_path / "signals/slow.py").write_text(SLOW)
    caches = [
        synthetic_cache(tmp_path / f"m-{task}-dev", rows=rows, layers=4, width=4, task=task, compact=True, model="m")
        for task, rows in (("a", 70), ("b", 60))
    ]
    asked = {"speed_ups": (1.5,), "primary_speed_up": 1.5, "rates_speed_up": 1.5, "resamples": 5, "folds": 2}
    suite = suite_of_caches(caches).with_signals(("deebert", "slow")).asking(**asked)
    with Workers(2) as workers:
        outcome = run_suite(suite, tmp_path / "out", executor=workers, directories=[tmp_path / "signals"])
    assert outcome.failures == ()


def test_what_is_fitted_or_comes_from_elsewhere_may_take_long(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    registry = load_registry([tmp_path])
    expected = {"deebert": False, "cap": False, "meta": True, "slow": True}
    assert {name: may_take_long([registry.make(name)]) for name in expected} == expected
    assert may_take_long([registry.make("deebert"), registry.make("slow")])
