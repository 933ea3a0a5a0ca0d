"""The checks for a GPU, asked of the CPU: they run, they hold, and they see what they are there to see."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from exitbench.models import collecting
from tests.support import gpu_checks
from tests.support.gpu_checks import CHECKS, Measured

pytestmark = pytest.mark.long


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gpu_checks, "REPEATS", 2)
    monkeypatch.setattr(gpu_checks, "PRODUCTS", 1)


@pytest.mark.parametrize("check", sorted(set(CHECKS) - {"timings"}))
def test_a_check_holds_on_the_cpu(check: str, tmp_path: Path) -> None:
    measured = CHECKS[check]("cpu", tmp_path)
    assert measured.holds, str(measured)
    if check == "autocast":
        assert measured.value > 1e-4, "the same numbers: nothing was computed in half precision"


def test_the_clock_of_the_cpu_is_asked_as_that_of_a_gpu(tmp_path: Path) -> None:
    # How far ten times the work is off depends on who else works on this machine: no limit is asked here.
    assert CHECKS["timings"]("cpu", tmp_path).value >= 0


def test_values_that_are_read_before_they_have_arrived_are_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive, calls = collecting._to_cpu, iter(range(10**6))

    def too_early(tensor: torch.Tensor) -> torch.Tensor:
        return arrive(tensor) * (1.5 if next(calls) % 7 == 3 else 1)

    monkeypatch.setattr(collecting, "_to_cpu", too_early)
    assert not CHECKS["transfers"]("cpu", tmp_path).holds


def test_a_device_that_computes_otherwise_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    collect = gpu_checks.collect

    def otherwise(*words: Any, **options: Any) -> None:
        with torch.no_grad():
            words[0].head(2).weight.mul_(1.001)
        collect(*words, **options)

    monkeypatch.setattr(gpu_checks, "collect", otherwise)
    assert not CHECKS["collect"]("cpu", tmp_path).holds


def test_exits_that_are_not_those_of_the_replay_are_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exits = gpu_checks.literal_exits
    monkeypatch.setattr(gpu_checks, "literal_exits", lambda *words: [layer - 1 for layer in exits(*words)])
    assert not CHECKS["live exits"]("cpu", tmp_path).holds


@pytest.mark.parametrize("check", ["collect", "live exits"])
def test_a_cache_of_another_device_is_no_check_of_this_one(
    check: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    collect = gpu_checks.collect
    monkeypatch.setattr(gpu_checks, "collect", lambda *words, **options: collect(*words, **options | {"device": "cpu"}))
    with pytest.raises(AssertionError, match="expected a cache made on meta, found one made on cpu"):
        CHECKS[check]("meta", tmp_path)


def test_what_was_measured_is_said_with_its_limit() -> None:
    assert str(Measured("collect differs from the CPU by", 3e-6, 1e-4)) == (
        "collect differs from the CPU by 3e-06 (at most 0.0001)"
    )
    assert Measured("x", 2, 2).holds
    assert not Measured("x", 3, 2).holds
