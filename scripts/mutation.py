"""Mutation testing of ``signals/``, ``benchmarks/`` and ``exitbench/cache``: would a test notice a wrong change?

    nice python scripts/mutation.py --mutants 500 --seed 14 --record ../mutants.jsonl

A seeded sample of small changes (:mod:`mutants`) is made one at a time in a copy of the tree, never in the checkout.
First all tests run once in the unchanged copy, under coverage: they should pass, those that do not are named and never
asked, and which lines each of them executes is kept beside the record. Then each change is held against the test file
that mirrors its module, and after that against other tests that execute a changed line, the nearest and quickest ones.
``--by-name`` does without coverage (:mod:`mutation_names`). A change that no test notices is a *survivor*.
The record has a line per mutant, and a run that was stopped goes on after its last line; ``--again`` repeats the
survivors only, and asks all of these tests, and those near the module that start programs.
"""

from __future__ import annotations

import argparse
import compileall
import contextlib
import gc
import hashlib
import io
import json
import math
import multiprocessing
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path
from queue import SimpleQueue
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from mutants import Mutant, mutants_of  # noqa: E402
from mutation_names import ByName  # noqa: E402

ROOMS = ("signals", "benchmarks", "exitbench/cache")
LEFT_OUT = ("benchmarks/speed/", "signals/registry/templates/")
COPIED = ("benchmarks", "docs", "exitbench", "fixtures", "reports", "scripts", "signals", "tests")
COPIED_FILES = ("pyproject.toml", "README.md", "constraints.txt", "requirements-lock.txt", "tox.ini")
LOOKED_AT = ("tests/cache", "tests/signals", "tests/benchmarks", "tests/*.py", "exitbench")
TIER = "not process and not browser and not e2e and not slow"
LATER_TIER = "process and not browser and not e2e and not slow"
SETTINGS = "[run]\nbranch = false\nsource =\n    exitbench\n    signals\n    benchmarks\n"
SECONDS, FACTOR, LATER_SECONDS = 20, 3, 240
"""Processor time of a mutant's tests: so much, and this many times what they took under coverage. Longer is noticed."""

FAILING = 5
"""So many tests may fail in the unchanged tree, on a busy machine; they are named and never asked."""

LONG, OTHERS = 3.0, 8.0
"""Tests of other modules that take more seconds each, or more seconds all together, are not asked at first."""


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


class Noted:
    """A pytest plug-in: seconds per test and the tests that failed; only ``wanted`` tests run, in that order."""

    def __init__(self, wanted: Sequence[str] | None = None) -> None:
        self.order = None if wanted is None else {test: position for position, test in enumerate(wanted)}
        self.seconds: dict[str, float] = {}
        self.failed: list[str] = []

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        if self.order is not None:
            order = self.order
            items[:] = sorted((item for item in items if item.nodeid in order), key=lambda item: order[item.nodeid])

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.seconds[report.nodeid] = self.seconds.get(report.nodeid, 0.0) + report.duration
        if report.failed:
            self.failed.append(report.nodeid)

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed:
            self.failed.append(f"{report.nodeid} (import)")


def pytest_here(
    tree: str, words: Sequence[str], wanted: Sequence[str] | None, seconds: int | None, answer: Any
) -> None:
    """In a forked process: pytest in the copy of the tree; the answer is its exit code and what was noted."""
    if seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    os.chdir(tree)
    sys.path.insert(0, tree)
    os.environ["PYTHONPATH"] = tree
    import pytest

    noted = Noted(wanted)
    always = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:anyio", "--hypothesis-seed=0"]
    always.append(f"--timeout={240 if seconds else 900}")  # nothing is wrong with the unchanged tree but a busy machine
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = int(pytest.main([*always, *words], plugins=[noted]))
    import exitbench

    assert Path(exitbench.__file__).is_relative_to(tree), "the copy of the tree is not what was tested"
    answer.send((code, noted.failed, noted.seconds))


Answer = tuple[int, list[str], dict[str, float]]


def forked(tree: Path, words: Sequence[str], wanted: Sequence[str] | None = None, seconds: int | None = None) -> Answer:
    """pytest in a process that shares the libraries already imported here, and nothing of exitbench."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=pytest_here, args=(str(tree), words, wanted, seconds, sender))
    process.start()
    sender.close()
    try:
        answer: Answer = receiver.recv()
    except EOFError:
        process.join()
        return process.exitcode or 70, [], {}
    process.join()
    return answer


@dataclass(frozen=True)
class Lookup:
    """Which tests execute which lines, from one run of all tests under coverage."""

    seconds: dict[str, float]
    lines: dict[str, dict[int, list[str]]]

    def executing(self, mutant: Mutant) -> list[str]:
        """The tests that execute a changed line; where it runs at import only, those that execute any of the file.

        What a fixture executes counts for all tests of that file, because they may share the fixture.
        """
        lines = self.lines.get(mutant.file, {})
        span = range(mutant.line, mutant.line + mutant.before.count("\n") + 1)
        contexts = {context for line in span for context in lines.get(line, [])} - {""}
        contexts = contexts or {context for line in lines for context in lines[line]} - {""}
        shared = {context.partition("::")[0] for context in contexts if not context.endswith("|run")}
        tests = {context.rpartition("|")[0] for context in contexts}
        return [test for test in self.seconds if test in tests or test.partition("::")[0] in shared]

    def limit(self, tests: Sequence[str]) -> int:
        return SECONDS + int(FACTOR * sum(self.seconds[test] for test in tests))


def look_up(tree: Path, kept: Path) -> Lookup:
    """Run all tests once in the unchanged tree under coverage, unless ``kept`` holds that already."""
    from coverage import CoverageData

    stored, seconds_file = kept / "coverage", kept / "seconds.json"
    if not seconds_file.exists():
        kept.mkdir(exist_ok=True)
        settings = kept / "settings"
        settings.write_text(SETTINGS)
        os.environ["COVERAGE_FILE"] = str(stored)
        tests = [path.relative_to(tree).as_posix() for place in LOOKED_AT for path in sorted(tree.glob(place))]
        words = ["-m", TIER, "--cov", f"--cov-config={settings}", "--cov-context=test", "--cov-report=", *tests]
        code, failed, seconds = forked(tree, words)
        if code not in (0, 1) or len(failed) > FAILING:
            raise SystemExit(f"expected tests that pass in the unchanged tree, found {code}: {', '.join(failed)}")
        for test in set(failed):
            print(f"not asked, because it fails without a change: {test}")  # noqa: T201 - for whoever reads the record
            del seconds[test]
        (kept / "tree").write_text(str(tree))
        seconds_file.write_text(json.dumps(seconds))
    data = CoverageData(str(stored))
    data.read()
    measured = Path((kept / "tree").read_text())
    lines = {
        Path(file).relative_to(measured).as_posix(): data.contexts_by_lineno(file) for file in data.measured_files()
    }
    return Lookup(json.loads(seconds_file.read_text()), lines)


def mirrored(tree: Path, file: str) -> tuple[list[str], set[str]]:
    """The test files of a module's own name, with its examples, and those of its folder or that import it."""
    path = Path(file)
    folder = Path("tests") / path.parent.relative_to("exitbench" if path.parts[0] == "exitbench" else ".")
    module = ".".join(("exitbench", *path.with_suffix("").parts[path.parts[0] == "exitbench" :]))
    own = [Path(module.replace(".", "/")).with_suffix(".py"), folder / f"test_{path.stem}.py"]
    near = set((tree / folder).glob("test_*.py"))
    near |= {test for test in (tree / "tests").rglob("test_*.py") if module in test.read_text()}
    names = {test.relative_to(tree).as_posix() for test in near}
    return [name.as_posix() for name in own if (tree / name).is_file()], names


def judged_by_name(tree: Path, groups: Sequence[tuple[list[str], int]]) -> tuple[str, str]:
    """``survived``, ``killed`` or ``timeout``, and the test that noticed; the change is made already.

    Which tests take long without a change is not known here: running out of time is no more than a survivor.
    """
    late = ""
    for files, seconds in groups:
        code, failed, _ = forked(tree, ["-x", "-m", TIER, *files], None, seconds)
        if code in (-24, -9):
            late = f"more than {seconds} s: {' '.join(files)}"
        elif code not in (0, 5):  # 5: no test was collected
            return "killed", failed[0] if failed else f"ended with {code}"
    return "survived", late


def judged(tree: Path, mutant: Mutant, lookup: Lookup, *, thorough: bool) -> tuple[str, str]:
    """The same for tests that are chosen by what they execute, whose times are known: too long is noticed."""
    own, near = mirrored(tree, mutant.file)
    most = math.inf if thorough else OTHERS
    for tests in test_groups(own, near, lookup, lookup.executing(mutant), most):
        files = sorted({file_of(test) for test in tests})
        code, failed, _ = forked(tree, ["-x", "-m", TIER, *files], tests, lookup.limit(tests))
        if code not in (0, 5):  # 5: no test was collected
            return ("timeout" if code in (-24, -9) else "killed"), failed[0] if failed else f"ended with {code}"
    files = sorted(name for name in {*own, *near} if "process" in (tree / name).read_text())
    if thorough and files:
        code, failed, _ = forked(tree, ["-x", "-m", LATER_TIER, *files], None, LATER_SECONDS)
        if code not in (0, 5):
            return ("timeout" if code in (-24, -9) else "killed"), failed[0] if failed else f"ended with {code}"
    return "survived", ""


def file_of(test: str) -> str:
    """The file of a test."""
    return test.partition("::")[0]


def test_groups(
    own: Sequence[str], near: Collection[str], lookup: Lookup, executing: Sequence[str], most: float
) -> list[list[str]]:
    """All tests of the mirror, then others that execute the change, near and quick ones first, for ``most`` seconds."""
    seconds = lookup.seconds
    mirror = [test for test in seconds if file_of(test) in own]
    mirror.sort(key=lambda test: (test not in executing, seconds[test]))
    others = [test for test in executing if test not in mirror and seconds[test] < LONG]
    others.sort(key=lambda test: (file_of(test) not in near, seconds[test]))
    ends = accumulate(seconds[test] for test in others)
    others = [test for test, end in zip(others, ends, strict=True) if end < most]
    return [tests for tests in (mirror, others) if tests]


def judge(tree: Path, mutant: Mutant, lookup: Lookup | ByName, *, thorough: bool) -> dict[str, Any]:
    """Make the change in the copy, run the tests, take the change back."""
    path, began = tree / mutant.file, time.monotonic()
    groups = lookup.groups(mutant, mirrored(tree, mutant.file)[0]) if isinstance(lookup, ByName) else []
    source, stamp = path.read_bytes(), path.stat()
    try:
        path.write_bytes(mutant.applied(source))
        os.utime(path, (1, 1))  # compiled files are told apart by their source's time and size
        if isinstance(lookup, ByName):
            outcome, test = judged_by_name(tree, groups)
        else:
            outcome, test = judged(tree, mutant, lookup, thorough=thorough)
    finally:
        path.write_bytes(source)
        os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    took = round(time.monotonic() - began, 1)
    return {"key": mutant.key, "outcome": outcome, "test": test, "seconds": took, **asdict(mutant)}


def copy_tree(target: Path) -> Path:
    """What the tests need, without anything that was generated."""
    target.mkdir()
    for name in (*COPIED, *COPIED_FILES):
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, target / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, target / name)
    compileall.compile_dir(target, quiet=2)
    collect = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", "--collect-only", "-m", TIER]
    folders = [str(path.relative_to(target)) for place in LOOKED_AT[:-1] for path in target.glob(place)]
    # pytest compiles test files in its own way, and keeps that only if it is allowed to
    environment = os.environ | {"PYTHONPATH": str(target), "PYTHONDONTWRITEBYTECODE": ""}
    words = [sys.executable, "-m", "pytest", *collect, *folders]
    subprocess.run(words, cwd=target, env=environment, check=True, stdout=subprocess.DEVNULL)
    return target


def digest(tree: Path) -> str:
    """The same for the same tests of the same code."""
    found = hashlib.sha256()
    for path in sorted(
        path for name in ("exitbench", "signals", "benchmarks", "tests") for path in tree.glob(f"{name}/**/*.py")
    ):
        found.update(path.relative_to(tree).as_posix().encode() + path.read_bytes())
    return found.hexdigest()[:12]


def read_record(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of every mutant; none if there is no record yet."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


def main() -> None:
    """Judge the sample, a line of the record for each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=240, help="No mutant is begun after this time.")
    parser.add_argument("--again", action="store_true", help="Only those that survived, against today's tests.")
    parser.add_argument("--by-name", action="store_true", help="Choose tests by names, without a run under coverage.")
    parser.add_argument("--record", type=Path, required=True, help="A file outside the tree, a JSON line per mutant.")
    arguments = parser.parse_args()
    if arguments.record.resolve().is_relative_to(ROOT):
        parser.error("the record must lie outside the tree")
    records = read_record(arguments.record)
    mutants = sample(ROOT, arguments.seed, arguments.mutants)
    if arguments.again:
        mutants = [mutant for mutant in mutants if records.get(mutant.key, {}).get("outcome") == "survived"]
    else:
        mutants = [mutant for mutant in mutants if mutant.key not in records]
    import _hypothesis_pytestplugin  # noqa: F401 - every forked process has them already
    import hypothesis  # noqa: F401 - "
    import matplotlib.pyplot  # noqa: F401 - "
    import pandas  # noqa: F401 - "
    import pyarrow.parquet  # type: ignore[import-untyped] # noqa: F401 - "
    import pytest  # noqa: F401 - "
    import pytest_benchmark.plugin  # noqa: F401 - "
    import pytest_cov.plugin  # noqa: F401 - "
    import pytest_timeout  # noqa: F401 - "
    import scipy.stats  # noqa: F401 - "
    import torch  # noqa: F401 - "

    gc.freeze()  # else the collector of every forked process copies all pages
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder, arguments.record.open("a", buffering=1) as stream:
        trees: SimpleQueue[Path] = SimpleQueue()
        for job in range(arguments.jobs):
            trees.put(first := copy_tree(Path(folder) / f"tree{job}"))
        kept = arguments.record.with_suffix(f".{digest(first)}")
        lookup = ByName(first) if arguments.by_name else look_up(first, kept)

        def record(mutant: Mutant) -> None:
            if time.monotonic() > end:
                return
            tree = trees.get()
            stream.write(json.dumps(judge(tree, mutant, lookup, thorough=arguments.again)) + "\n")
            trees.put(tree)

        with ThreadPoolExecutor(arguments.jobs) as threads:
            list(threads.map(record, mutants))


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    main()
