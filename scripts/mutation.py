"""Mutation testing of ``signals/``, ``benchmarks/`` and ``exitbench/cache``: would a test notice a wrong change?

    nice python scripts/mutation.py --mutants 500 --seed 14 --record ../mutants.jsonl

A seeded sample of small changes (:mod:`mutants`) is made one at a time in a copy of the tree, never in the checkout.
Each is held against the test file that mirrors its module, and after that against others that name what is around it
(:mod:`mutation_names`): changes inside functions in copies of one warm process (:mod:`mutation_warm`), all others in a
process that imports them (:mod:`mutation_fresh`). A change that no test notices is a *survivor*. The record has a line
per answer, the last one counts, and a run that was stopped goes on after its last line; ``--again`` repeats the
survivors only, each imported, with more tests and those that start programs.
"""

from __future__ import annotations

import argparse
import compileall
import gc
import json
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

import mutation_fresh  # noqa: E402
import mutation_warm  # noqa: E402
from mutants import Mutant, mutants_of  # noqa: E402
from mutation_names import Tests  # noqa: E402

ROOMS = ("signals", "benchmarks", "exitbench/cache")
LEFT_OUT = ("benchmarks/speed/", "signals/registry/templates/")
COPIED = (".github", "benchmarks", "docs", "exitbench", "fixtures", "reports", "scripts", "signals", "tests")
COPIED_FILES = ("pyproject.toml", "README.md", "constraints.txt", "requirements-lock.txt", "tox.ini", "mkdocs.yml")


def population(root: Path) -> list[Mutant]:
    """All mutants of a tree, in the order of its files."""
    files = [path for room in ROOMS for path in sorted((root / room).rglob("*.py"))]
    kept = [path for path in files if not path.relative_to(root).as_posix().startswith(LEFT_OUT)]
    return [mutant for path in kept for mutant in mutants_of(root, path)]


def sample(root: Path, seed: int, count: int) -> list[Mutant]:
    """The first ``count`` of all mutants in a random order: a larger sample begins with the smaller one."""
    mutants = population(root)
    random.Random(seed).shuffle(mutants)  # noqa: S311 - a sample, no secret
    return mutants[:count]


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
    return target


def read_record(path: Path) -> dict[str, dict[str, Any]]:
    """The last line of every mutant; none if there is no record yet."""
    lines = path.read_text().splitlines() if path.exists() else []
    return {record["key"]: record for record in map(json.loads, lines)}


def import_libraries() -> None:
    """What every forked process then has already."""
    import _hypothesis_pytestplugin  # noqa: F401
    import hypothesis  # noqa: F401
    import matplotlib.pyplot  # noqa: F401
    import pandas  # noqa: F401
    import pyarrow.parquet  # type: ignore[import-untyped] # noqa: F401
    import pytest_benchmark.plugin  # noqa: F401
    import pytest_cov.plugin  # noqa: F401
    import pytest_timeout  # noqa: F401
    import scipy.stats  # noqa: F401
    import torch  # noqa: F401


def main() -> None:
    """Judge the sample, a line of the record for each answer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--mutants", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=240, help="No mutant is begun after this time.")
    parser.add_argument("--again", action="store_true", help="Only those that survived, against today's tests.")
    parser.add_argument("--record", type=Path, required=True, help="A file outside the tree, a JSON line per answer.")
    arguments = parser.parse_args()
    if arguments.record.resolve().is_relative_to(ROOT):
        parser.error("the record must lie outside the tree")
    mutants = sample(ROOT, arguments.seed, arguments.mutants)
    import_libraries()
    gc.freeze()
    end = time.monotonic() + 60 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder, arguments.record.open("a", buffering=1) as stream:
        tree = copy_tree(Path(folder) / "tree")
        tests = Tests(tree)

        def note(mutant: Mutant, outcome: str, test: str, seconds: float) -> None:
            answer = {"key": mutant.key, "outcome": outcome, "test": test, "seconds": round(seconds, 1)}
            stream.write(json.dumps(answer | asdict(mutant)) + "\n")

        def waiting(*outcomes: str | None) -> list[Mutant]:
            records = read_record(arguments.record)
            return [mutant for mutant in mutants if records.get(mutant.key, {}).get("outcome") in outcomes]

        if unknown := [] if arguments.again else waiting(None):
            context = multiprocessing.get_context("fork")
            warm = context.Process(target=mutation_warm.judge, args=(tree, unknown, tests, end, note))
            warm.start()
            warm.join()
            if warm.exitcode:
                raise SystemExit(f"expected a warm process that ends well, found the exit code {warm.exitcode}")
        for mutant in waiting("survived") if arguments.again else waiting("at import"):
            began = time.monotonic()
            if began < end:
                outcome, test = mutation_fresh.judge(tree, mutant, tests, again=arguments.again)
                note(mutant, outcome, test, time.monotonic() - began)


if __name__ == "__main__":
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg", "HF_HUB_OFFLINE": "1"}
    os.environ["PYTHONDONTWRITEBYTECODE"] = "1"
    sys.dont_write_bytecode = True
    main()
