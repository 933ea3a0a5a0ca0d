"""On the first CUDA machine that these tests meet: is everything as on the CPU, and where is it faster?"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from exitbench.cache import Cache, verify
from tests.support.gpu_checks import CHECKS, FLOAT32, Measured, difference
from tests.support.tiny_models import collected_folder, two_processes

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device: torch.cuda finds none here"),
]


@pytest.mark.parametrize("check", CHECKS)
def test_a_check_holds_on_the_gpu(check: str, tmp_path: Path, results_so_far: list[Measured]) -> None:
    measured = CHECKS[check]("cuda", tmp_path)
    results_so_far.append(measured)
    assert measured.holds, str(measured)


@pytest.mark.process
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices, one for each process")
def test_two_processes_collect_what_one_on_the_cpu_does(tmp_path: Path, results_so_far: list[Measured]) -> None:
    folder = collected_folder(tmp_path, depth=4, rows=53)
    words = ["-m", "exitbench", "collect", "--model", folder / "model", "--data-dir", folder / "data"]
    done = two_processes(*words, "--out", tmp_path / "two", "--shard-rows", "20", "--precision", "float32")
    assert done.returncode == 0, done.stderr
    assert verify(tmp_path / "two") == []
    one, two = Cache(folder / "cache"), Cache(tmp_path / "two")
    largest = max(difference(two.logits(layer), one.logits(layer)) for layer in range(1, one.layers + 1))
    measured = Measured("two processes differ from the CPU by", largest, FLOAT32)
    results_so_far.append(measured)
    assert measured.holds, str(measured)
