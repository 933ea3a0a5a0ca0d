"""Mutation testing of ``signals/``, ``benchmarks/`` and ``exitbench/cache``: would a test notice a wrong change?

    nice python scripts/mutation.py --mutants 500 --seed 0 --record mutants.jsonl

A seeded sample of small changes (:mod:`mutants`) is made one at a time in a copy of the tree, never in the checkout,
and each is held against the tests that mirror its module: first the file of the same name, then the files of the
mirrored folder, then every test that imports the module, then those among them that start programs, and last all tests
of the room. A change that no test notices is a *survivor*. The record has a line per mutant, and a run that was stopped
goes on after its last line; ``--again`` repeats the survivors only.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import io
import json
import multiprocessing
import os
import random
import resource
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mutants import Mutant, mutants_of  # noqa: E402

ROOMS = ("signals", "benchmarks", "exitbench/cache")
LEFT_OUT = ("benchmarks/speed/", "signals/registry/templates/")
COPIED = ("benchmarks", "docs", "exitbench", "fixtures", "reports", "signals", "tests", "pyproject.toml", "README.md")
TIER, LATER_TIER = (
    "not process and not browser and not e2e and not slow",
    "(process or e2e) and not browser and not slow",
)
SECONDS = 240
"""Processor time of one mutant's tests; a change that makes them longer than this is noticed."""


def sample(root: Path, seed: int, count: int) -> list[Mutant]:
    """The first ``count`` of all mutants in a random order: a larger sample begins with the smaller one."""
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    mutants = [
        mutant
        for path in files
        if not path.relative_to(root).as_posix().startswith(LEFT_OUT)
        for mutant in mutants_of(root, path)
    ]
    random.Random(seed).shuffle(mutants)  # noqa: S311 - a sample, no secret
    return mutants[:count]


def mirrors(root: Path, file: str) -> Iterator[list[str]]:
    """The tests of a module, nearest first: its own file, its folder's, and those that import it."""
    path = Path(file)
    folder = Path("tests") / path.parent.relative_to("exitbench" if path.parts[0] == "exitbench" else ".")
    module = ".".join(("exitbench", *path.with_suffix("").parts[path.parts[0] == "exitbench" :]))
    own = folder / f"test_{path.stem}.py"
    examples = Path(module.replace(".", "/")).with_suffix(".py")
    groups = [
        [examples, own] if (root / own).is_file() else [examples],
        sorted(test.relative_to(root) for test in (root / folder).glob("test_*.py")),
        sorted(test.relative_to(root) for test in (root / "tests").rglob("test_*.py") if module in test.read_text()),
    ]
    seen: set[Path] = set()
    for group in groups:
        if fresh := [test.as_posix() for test in group if test not in seen]:
            seen.update(group)
            yield fresh


class FirstFailure:
    """A pytest plug-in that remembers the first test that failed."""

    test = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.test:
            self.test = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.test:
            self.test = f"{report.nodeid} (import)"


def run_tests(tree: str, tests: Sequence[str], tier: str, answer: Any) -> None:
    """In a forked process: the tests in the copy of the tree; the answer is exit code and first failure."""
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS + 5))
    os.chdir(tree)
    sys.path.insert(0, tree)
    os.environ["PYTHONPATH"] = tree
    import pytest

    noted = FirstFailure()
    words = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", tier, "--hypothesis-seed=0", *tests]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = int(pytest.main(words, plugins=[noted]))
    import exitbench

    assert Path(exitbench.__file__).is_relative_to(tree), "the copy of the tree is not what was tested"
    answer.send((code, noted.test))


def tested(tree: Path, tests: Sequence[str], tier: str) -> tuple[str, str]:
    """``survived``, ``killed`` or ``timeout``, and the test that noticed."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_tests, args=(str(tree), tests, tier, sender))
    process.start()
    sender.close()
    try:
        code, test = receiver.recv()
    except EOFError:
        process.join()
        return ("timeout" if process.exitcode in (-24, -9) else "killed"), f"the tests ended with {process.exitcode}"
    process.join()
    # 5: none of these tests runs in this tier.
    return ("survived" if code in (0, 5) else "killed"), test


@cache
def require_green(tree: Path, tests: tuple[str, ...], tier: str) -> None:
    """Tests that fail without any change would kill every mutant."""
    outcome, test = tested(tree, tests, tier)
    if outcome != "survived":
        raise SystemExit(f"expected tests that pass in the unchanged tree, found a failure: {test}")


def judge(tree: Path, mutant: Mutant) -> dict[str, Any]:
    """Make the change in the copy, run the mirror tests, take the change back."""
    path, began = tree / mutant.file, time.monotonic()
    source, stamp = path.read_bytes(), path.stat()
    outcome, test = "survived", ""
    try:
        groups = list(mirrors(tree, mutant.file))
        nearest = [test for group in groups for test in group]
        room = ["tests/cache" if mutant.file.startswith("exitbench") else f"tests/{Path(mutant.file).parts[0]}"]
        for tests, tier in [*((group, TIER) for group in groups), (nearest, LATER_TIER), (room, TIER)]:
            path.write_bytes(source)
            require_green(tree, tuple(tests), tier)
            path.write_bytes(mutant.applied(source))
            os.utime(path, (1, 1))  # compiled files are told apart by their source's time and size
            outcome, test = tested(tree, tests, tier)
            if outcome != "survived":
                break
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    took = round(time.monotonic() - began, 1)
    return {"key": mutant.key, "outcome": outcome, "test": test, "seconds": took, **asdict(mutant)}


def copy_tree(target: Path) -> Path:
    """What the tests need, without anything that was generated."""
    target.mkdir()
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    compileall.compile_dir(target, quiet=2)
    return target


def summary(records: Sequence[dict[str, Any]]) -> str:
    """The score by room, and every survivor with the change that it is."""
    lines = []
    for room in (*ROOMS, ""):
        here = [record for record in records if record["file"].startswith(room)]
        counts = Counter(record["outcome"] for record in here)
        noticed = counts["killed"] + counts["timeout"]
        share = f"{noticed / len(here):.1%}" if here else "none"
        lines.append(f"{room or 'all'}: {noticed} of {len(here)} noticed ({share}), {counts['survived']} survived")
    for record in sorted(records, key=lambda record: (record["file"], record["line"])):
        if record["outcome"] == "survived":
            change = " ".join(f"{record['before']!r} -> {record['text']!r}".split())
            lines.append(f"{record['file']}:{record['line']}: {record['kind']}: {change}")
    return "\n".join(lines)


def main() -> None:
    """Judge the sample and print the score."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240, help="No mutant is begun after this time.")
    parser.add_argument("--again", action="store_true", help="Only those that survived, against today's tests.")
    parser.add_argument("--record", type=Path, required=True, help="A file outside the tree, a JSON line per mutant.")
    arguments = parser.parse_args()
    if arguments.record.resolve().is_relative_to(ROOT):
        parser.error("the record must lie outside the tree")
    records = {}
    if arguments.record.exists():
        records = {record["key"]: record for record in map(json.loads, arguments.record.read_text().splitlines())}
    mutants = sample(ROOT, arguments.seed, arguments.mutants)
    if arguments.again:
        survived = {key for key, record in records.items() if record["outcome"] == "survived"}
        mutants = [mutant for mutant in mutants if mutant.key in survived]
    else:
        mutants = [mutant for mutant in mutants if mutant.key not in records]
    import hypothesis  # noqa: F401 - every forked process has them already
    import pandas  # noqa: F401 - "
    import pyarrow.parquet  # type: ignore[import-untyped] # noqa: F401 - "
    import pytest  # noqa: F401 - "
    import scipy.stats  # noqa: F401 - "
    import torch  # noqa: F401 - "

    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder, arguments.record.open("a", buffering=1) as stream:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            trees.put(copy_tree(Path(folder) / f"tree{job}"))

        def one(mutant: Mutant) -> None:
            if time.monotonic() > end:
                return
            tree = trees.get()
            record = judge(tree, mutant)
            trees.put(tree)
            records[mutant.key] = record
            stream.write(json.dumps(record) + "\n")

        with ThreadPoolExecutor(arguments.jobs) as threads:
            list(threads.map(one, mutants))
    print(summary(list(records.values())))  # noqa: T201 - the answer


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    main()
