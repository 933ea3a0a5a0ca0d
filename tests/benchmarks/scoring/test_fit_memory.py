"""Six gigabytes of calibration rows are fitted in one and a half: a process for every signal that learns.

With two classes nearly all of it is features; with 150 a quarter is logits, from which a fit derives more than it has.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.caches import cache_size, qqp_sized, repeated
from exitbench.signals import load_registry

pytestmark = [pytest.mark.slow, pytest.mark.process]

REGISTRY = load_registry()
LEARNED = [name for name in sorted(REGISTRY.signals) if REGISTRY.make(name).needs_fit]
VARIANTS = ["beem[weights=accuracy]", "berxit[form=published]", "calibrated[of=edr]", "calibrated[of=meta]"]
VARIANTS += ["mahalanobis[form=margin]", "meta[features=true]", "right-tool[temperature=fitted]"]
SHARDS = {2: 80, 150: 57}
"""How many shards of 4,096 samples make six gigabytes, by the number of classes."""
MOST = 1.5e9

FIT = """
import json, os, sys
os.environ["EXITBENCH_FIT_CACHE"] = "off"
from exitbench.benchmarks.scoring.score_cache import fitted
from exitbench.benchmarks.speed.harness.watched import peak_bytes
from exitbench.cache import Cache
from exitbench.signals import load_registry
ready = fitted(load_registry().make(sys.argv[1]), Cache(sys.argv[2]))
print(json.dumps([peak_bytes(), ready.fitted_parameters]))
"""


@pytest.fixture(scope="module")
def six_gigabytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[int], Path]]:
    made: dict[int, Path] = {}

    def of_classes(classes: int) -> Path:
        if classes not in made:
            folder = tmp_path_factory.mktemp(f"fit-memory-{classes}")
            shard = qqp_sized(folder / "shard", rows=4096, classes=classes)
            made[classes] = repeated(shard, folder / "six", SHARDS[classes])
        return made[classes]

    yield of_classes


@pytest.mark.parametrize("classes", SHARDS)
@pytest.mark.parametrize("text", [*LEARNED, *VARIANTS])
def test_a_fit_on_six_gigabytes_needs_one_and_a_half(
    text: str, classes: int, six_gigabytes: Callable[[int], Path]
) -> None:
    cache = six_gigabytes(classes)
    assert cache_size(cache) > 6e9
    done = subprocess.run([sys.executable, "-c", FIT, text, str(cache)], capture_output=True, check=True)
    peak, parameters = json.loads(done.stdout)
    assert parameters > 0
    assert peak < MOST, f"{peak / 1e9:.2f} GB"
