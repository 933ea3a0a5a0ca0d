"""Parts of a run: every unit in one of them, and joined they are the run of one process, byte for byte."""

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest

from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.run.plan import cache_units, plan_run
from exitbench.benchmarks.run.run_suite import run_part, run_suite
from exitbench.benchmarks.run.shares import part_folder, parts_below, share_of
from exitbench.benchmarks.suites.suite import Suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.output_folder import locked
from exitbench.signals.registry.discovery import load_registry

SIGNALS = ("deebert", "pabee", "right-tool")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    root = tmp_path_factory.mktemp("caches")
    made = {"rows": 40, "layers": 3, "width": 4, "compact": True, "model": "m"}
    caches = [synthetic_cache(root / f"m-{task}-dev", task=task, seed=ord(task), **made) for task in "ab"]
    tiny = replace(suite_of_caches(caches), name="tiny").with_signals(SIGNALS)
    return tiny.asking(speed_ups=(1.2,), primary_speed_up=1.2, rates_speed_up=1.2, losses=(2.0,), resamples=3, folds=2)


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / f"{name}.parquet").read_bytes()).hexdigest() for name in (*SCHEMAS, "across")}


@pytest.fixture(scope="module")
def expected(suite: Suite, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    out = tmp_path_factory.mktemp("one") / "out"
    assert run_suite(suite, out).complete
    return digests(out)


def test_the_parts_of_any_number_have_every_signal_of_every_cache_once(suite: Suite, tmp_path: Path) -> None:
    units = cache_units(suite, plan_run(suite, load_registry()), [], tmp_path, tuple(SCHEMAS))
    every = [unit.label for cache in units for unit in cache.measures]
    assert len(every) == 6
    for count in (1, 2, 3, 4, 6, 7, 16):
        shares = [share_of(units, (number, count)) for number in range(1, count + 1)]
        assert [unit.label for share in shares for cache in share for unit in cache.measures] == every
        assert max(sum(len(cache.measures) for cache in share) for share in shares) == -(-6 // count)
        for share in shares:
            for cache in share:
                assert cache.compared == (len(cache.measures) == len(SIGNALS))


@pytest.mark.long
def test_parts_in_any_order_are_joined_to_the_bytes_of_one_run(suite, expected, tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    for number in (3, 1, 4):  # the second is left to the last run
        count, failures = run_part(suite, out, (number, 4))
        assert failures == []
        assert 1 <= count <= 2
        assert not (out / "run.json").exists()
        assert not list(out.glob("*.parquet"))
    done = {path.parent.name for path in (out / ".units").glob("part-*/*/done.json")}
    begun: list[str] = []
    from exitbench.executors import unit as units

    work = units.work_and_sign
    monkeypatch.setattr(units, "work_and_sign", lambda unit: (begun.append(unit.folder.name), work(unit)))
    assert run_suite(suite, out).complete
    assert digests(out) == expected
    assert not done & set(begun)
    assert len([name for name in begun if name.startswith("measure-")]) == 2
    assert not (out / ".units").exists()
    with pytest.raises(InputError, match="holds a finished run"):
        run_part(suite, out, (1, 4))


@pytest.mark.long
def test_a_run_does_not_begin_while_a_part_is_at_work(suite, tmp_path) -> None:
    out = tmp_path / "out"
    run_part(suite, out, (1, 6))
    with locked(part_folder(out / ".units", (1, 6))):
        with pytest.raises(InputError, match="part 1 of 6 is still at work"):
            run_suite(suite, out)
        with pytest.raises(InputError, match="another exitbench is writing"):
            run_part(suite, out, (1, 6))
        assert run_part(suite, out, (2, 6)) == (1, [])
    assert json.loads((out / ".exitbench.json").read_text())["files"] == {"run": ["run.json"]}


@pytest.mark.long
def test_parts_of_another_run_are_not_thrown_away_unasked(suite, expected, tmp_path) -> None:
    out = tmp_path / "out"
    run_part(suite.asking(seed=5), out, (1, 2))
    run_part(suite, out, (2, 2))
    kept = sorted((out / ".units/part-1-of-2").glob("*/done.json"))
    with pytest.raises(InputError, match=r"expected part 1 of 2 in .*out to be of this run, found units of another"):
        run_suite(suite, out)
    assert kept
    assert all(file.is_file() for file in kept)
    run_part(suite, out, (1, 2))  # what else lies there is of no consequence
    assert run_suite(suite, out).complete
    assert digests(out) == expected
    run_part(suite.asking(seed=5), other := tmp_path / "other", (1, 2))
    assert run_suite(suite, other, force=True).complete
    assert digests(other) == expected


def test_only_folders_that_are_named_as_parts_are_parts(tmp_path):
    for name in ("part-2-of-3", "part-1-of-3", "part-a-of-b"):
        (tmp_path / name).mkdir()
    (tmp_path / "part-3-of-3").write_text("a file")
    assert [path.name for path in parts_below(tmp_path)] == ["part-1-of-3", "part-2-of-3"]
