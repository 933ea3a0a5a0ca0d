"""Hostile arrays, suites, runs, baselines and signal files: one line and exit code 2, or an answer; never a defect."""

import json
import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hypothesis_arrays

from exitbench.benchmarks.baselines.baseline_table import read_baseline
from exitbench.benchmarks.run.plan import plan_run
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite_file import load_suite, suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.cli.signal_file import read_signal
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import load_registry
from tests.support.checked_suite import SUITE
from tests.support.command_line import exit_code
from tests.support.hostile_values import ANYTHING, key_paths, replaced, with_bytes

FUZZ = settings(
    max_examples=60, deadline=timedelta(seconds=30), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
TEXT_VALUES = st.one_of(
    st.integers(), st.floats(), st.booleans(), st.text(max_size=12), st.lists(st.integers() | st.text(max_size=5))
)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache, two runs of it, a suite with its baseline, and a signal file."""
    folder = tmp_path_factory.mktemp("whole")
    synthetic_cache(folder / "caches/little", rows=60, layers=5, width=6)
    suite = suite_of_caches([folder / "caches/little"]).asking(protocols=("in-sample",), resamples=2)
    run_suite(suite.with_signals(("deebert",)), folder / "run")
    shutil.copytree(folder / "run", folder / "other")
    (folder / "small.toml").write_text(SUITE)
    assert exit_code("check", folder / "small.toml", "--update", "--jobs", 1) == 0
    (folder / "signal.json").write_text(json.dumps({"name": "cap", "parameters": {"alpha": 0.1}, "learned": {}}))
    return folder


def answered(*words: object, capsys: pytest.CaptureFixture[str]) -> None:
    """The verb ends with an answer, or with one line and exit code 2."""
    code = exit_code(*words)
    errors = capsys.readouterr().err
    assert code in (0, 1, 2), errors
    assert "Traceback" not in errors
    if code == 2:
        assert errors.count("\n") == 1


def refused_or_fine(action: Callable[[], object]) -> None:
    """Any exception but an InputError of one line is a failure."""
    try:
        action()
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.long
@FUZZ
@given(data=st.data(), new=ANYTHING)
def test_any_value_anywhere_in_run_json(
    whole: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject, new: Any
) -> None:
    path = whole / "other" / "run.json"
    original = path.read_bytes()
    record = json.loads(original)
    key_path = data.draw(st.sampled_from(list(key_paths(record))))
    try:
        path.write_text(json.dumps(replaced(record, key_path, new)))
        answered("compare", whole / "run", whole / "other", capsys=capsys)
    finally:
        path.write_bytes(original)


@pytest.mark.long
@FUZZ
@given(data=st.data(), file=st.sampled_from(["run.json", "results.parquet", "samples.parquet"]))
def test_any_bytes_of_a_run(whole: Path, capsys: pytest.CaptureFixture[str], data: st.DataObject, file: str) -> None:
    path = whole / "other" / file
    original = path.read_bytes()
    try:
        path.write_bytes(with_bytes(data, original))
        answered("compare", whole / "run", whole / "other", capsys=capsys)
    finally:
        path.write_bytes(original)


@pytest.mark.long
@FUZZ
@given(data=st.data())
def test_any_bytes_of_an_npz_file(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("npz")
    np.savez(folder / "a.npz", labels=np.array([0, 1]), logits=np.zeros((2, 2, 2), dtype=np.float32))
    (folder / "a.npz").write_bytes(with_bytes(data, (folder / "a.npz").read_bytes()))
    answered("import", folder / "a.npz", "--task", "x", "--split", "dev", "--out", folder / "c", capsys=capsys)


@pytest.mark.long
@FUZZ
@given(
    made=st.dictionaries(
        st.sampled_from(["labels", "logits", "features", "weight", "bias", "offset_norm", "ids", "other"]),
        hypothesis_arrays.arrays(
            hypothesis_arrays.scalar_dtypes(), hypothesis_arrays.array_shapes(min_dims=0, max_dims=3, max_side=3)
        ),
        max_size=6,
    )
)
def test_any_arrays_in_an_npz_file(
    tmp_path_factory: pytest.TempPathFactory, capsys: pytest.CaptureFixture[str], made: dict[str, Any]
) -> None:
    folder = tmp_path_factory.mktemp("npz")
    complete = {"labels": np.array([0, 1]), "logits": np.zeros((2, 2, 2), dtype=np.float32)}
    np.savez(folder / "a.npz", **(complete | made))  # type: ignore[arg-type]
    answered("import", folder / "a.npz", "--task", "x", "--split", "dev", "--out", folder / "c", capsys=capsys)
    if (folder / "c").exists() and json.loads((folder / "c" / "manifest.json").read_text())["complete"]:
        assert exit_code("verify", folder / "c") == 0, capsys.readouterr()


@pytest.mark.long
@FUZZ
@given(data=st.data(), new=TEXT_VALUES)
def test_any_value_of_a_suite(whole: Path, data: st.DataObject, new: Any) -> None:
    lines = [line for line in SUITE.splitlines() if " = " in line]
    key = data.draw(st.sampled_from([line.split(" = ")[0] for line in lines]))
    text = "inf" if new == float("inf") else json.dumps(new).replace("NaN", "nan").replace("Infinity", "inf")
    changed = "\n".join(f"{key} = {text}" if line.startswith(f"{key} = ") else line for line in SUITE.splitlines())
    (whole / "fuzzed.toml").write_text(changed, encoding="utf-8")

    def load_and_plan() -> None:
        suite = load_suite(whole / "fuzzed.toml")
        suite.require_caches()
        suite.layers_of(5)
        plan_run(suite, load_registry())

    refused_or_fine(load_and_plan)


@pytest.mark.long
@FUZZ
@given(data=st.data())
def test_any_bytes_of_a_suite_and_of_a_baseline(whole: Path, data: st.DataObject) -> None:
    (whole / "fuzzed.toml").write_bytes(with_bytes(data, SUITE.encode()))
    refused_or_fine(lambda: load_suite(whole / "fuzzed.toml"))
    (whole / "fuzzed.csv").write_bytes(with_bytes(data, (whole / "small.csv").read_bytes()[:600]))
    refused_or_fine(lambda: read_baseline(whole / "fuzzed.csv"))


@pytest.mark.long
@FUZZ
@given(data=st.data(), new=ANYTHING)
def test_any_value_anywhere_in_a_signal_file(whole: Path, data: st.DataObject, new: Any) -> None:
    record = json.loads((whole / "signal.json").read_text())
    if data.draw(st.booleans()):
        record = {"signal": record, "threshold": 0.5, "text": "cap"}
    key_path = data.draw(st.sampled_from(list(key_paths(record))))
    (whole / "fuzzed.json").write_text(json.dumps(replaced(record, key_path, new)))
    refused_or_fine(lambda: read_signal(whole / "fuzzed.json", load_registry()))
    (whole / "fuzzed.json").write_bytes(with_bytes(data, (whole / "signal.json").read_bytes()))
    refused_or_fine(lambda: read_signal(whole / "fuzzed.json", load_registry()))
