"""What tests of verbs share: a folder with its baseline and an edited copy of it, and one thread for tiny models."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from exitbench.benchmarks.baselines.check_suite import Checked, check_suite
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache import synthetic_cache
from tests.support.checked_suite import SUITE, run


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small cache, a suite of four signals and its baseline."""
    folder = tmp_path_factory.mktemp("pinned")
    synthetic_cache(folder / "caches/little", rows=80, layers=5, width=8, seed=3)
    (folder / "small.toml").write_text(SUITE)
    assert run(folder / "small.toml", "--update", "--jobs", 1) == 0
    return folder


@pytest.fixture(scope="module")
def edited(pinned: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy whose suite lost PABEE and whose baseline lost NSP, has a wrong DIS and a wide tolerance."""
    folder = tmp_path_factory.mktemp("edited") / "copy"
    shutil.copytree(pinned, folder)
    (folder / "small.toml").write_text(SUITE.replace('"pabee", ', ""))
    lines = (folder / "small.csv").read_text().splitlines(keepends=True)
    lines = [line for line in lines if ",nsp," not in line]
    at = next(n for n, line in enumerate(lines) if ",deebert," in line and ",2,,dis," in line)
    key, value, _ = lines[at].rstrip().rsplit(",", 2)
    lines[at] = f"{key},{float(value) + 7},6.5\n"
    (folder / "small.csv").write_text("".join(lines))
    return folder


@pytest.fixture(scope="module")
def outcome(edited: Path) -> Checked:
    """What checking the edited copy gives."""
    return check_suite(load_suite(edited / "small.toml"), edited / "small.csv")


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """Tiny matrices: a second thread costs more than it brings."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
