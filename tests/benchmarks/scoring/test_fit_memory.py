"""Six gigabytes of calibration features are fitted in one and a half: a process for every signal that reads them."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from exitbench.benchmarks.speed.harness.caches import feature_bytes, qqp_sized, repeated
from exitbench.signals import load_registry

pytestmark = [pytest.mark.slow, pytest.mark.process]

REGISTRY = load_registry()
SIGNALS = [signal for signal in map(REGISTRY.make, sorted(REGISTRY.signals)) if signal.needs_fit]
TEXTS = [signal.name for signal in SIGNALS if "features" in signal.inputs]
TEXTS += ["berxit[form=published]", "calibrated[of=edr]", "mahalanobis[form=margin]", "meta[features=true]"]
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
def six_gigabytes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("fit-memory")
    yield repeated(qqp_sized(folder / "shard", rows=4096), folder / "six", 80)


@pytest.mark.parametrize("text", TEXTS)
def test_a_fit_on_six_gigabytes_needs_one_and_a_half(text: str, six_gigabytes: Path) -> None:
    assert feature_bytes(six_gigabytes) > 6e9
    done = subprocess.run([sys.executable, "-c", FIT, text, str(six_gigabytes)], capture_output=True, check=True)
    peak, parameters = json.loads(done.stdout)
    assert parameters > 0
    assert peak < MOST, f"{peak / 1e9:.2f} GB"
