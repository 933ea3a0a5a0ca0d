"""A run as a whole: the same bytes for any number of jobs, resumed after a kill, one failure stopping nothing else."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.run import stages
from exitbench.benchmarks.run.plan import cache_units, plan_run
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.run.units import JoinUnit
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.cli.app import build
from exitbench.errors import InputError
from exitbench.executors.local_pool import Workers
from exitbench.executors.unit import Failure, work_and_sign
from exitbench.output_folder import INVENTORY, read_inventory
from exitbench.signals.registry.discovery import load_registry

pytestmark = pytest.mark.long

torch.set_num_threads(1)

BROKEN = '''
from dataclasses import dataclass
from typing import ClassVar
from exitbench import ExitSignal, Reference

@dataclass(frozen=True)
class Broken(ExitSignal):
    """Fails at its third layer."""

    name: ClassVar[str] = "broken"
    title: ClassVar[str] = "Broken"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar[str] = "<"
    inputs: ClassVar[frozenset] = frozenset({"logits"})

    def score(self, layer):
        if layer.index == 3:
            raise RuntimeError("no third layer")
        return layer.logits64[:, 0]
'''


@pytest.fixture(scope="module")
def suite(tmp_path_factory):
    root = tmp_path_factory.mktemp("caches")
    made = {"layers": 5, "width": 6, "compact": True, "model": "m"}
    caches = [
        synthetic_cache(root / "m-a-dev", rows=70, task="a", **made),
        synthetic_cache(root / "m-b-dev", rows=60, task="b", metric="f1", seed=1, **made),
    ]
    tiny = replace(suite_of_caches(caches), name="tiny").with_signals(("deebert", "pabee", "cap[alpha=0.1|1]"))
    return tiny.asking(speed_ups=(1.5,), primary_speed_up=1.5, rates_speed_up=1.5, losses=(2.0,), resamples=10, folds=3)


@pytest.fixture(scope="module")
def finished(suite, tmp_path_factory):
    out = tmp_path_factory.mktemp("run") / "out"
    outcome = run_suite(suite, out, arguments=["exitbench", "run", "tiny"])
    assert outcome.complete
    return out


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / f"{name}.parquet").read_bytes()).hexdigest() for name in SCHEMAS}


def test_a_run_leaves_exactly_the_documented_files(finished):
    files = {"run.json", "across.parquet", *(f"{name}.parquet" for name in SCHEMAS)}
    assert {path.name for path in finished.iterdir()} == {INVENTORY, *files}
    assert set(read_inventory(finished)["run"]) == files


def test_run_json_says_what_was_run_on_what(finished, suite):
    record = RunFiles(finished).record
    assert record["complete"] is True
    assert record["command"] == "exitbench run tiny"
    for path in suite.caches:
        manifest = (path / "manifest.json").read_bytes()
        assert record["caches"][path.name]["manifest_sha256"] == hashlib.sha256(manifest).hexdigest()
        assert record["caches"][path.name]["verified"] is True
    assert record["suite"]["signals"] == list(suite.signals)
    assert {"git", "versions", "machine", "seed", "failures", "notes"} <= set(record)
    assert record["entries"][2]["parameters"] == "alpha=0.1|1,center=false"


def test_every_cache_protocol_and_entry_has_its_numbers(finished):
    results = RunFiles(finished).results
    for cache in ("m-a-dev", "m-b-dev", ""):
        for protocol in ("in-sample", "cross-fit"):
            rows = results[(results.cache == cache) & (results.protocol == protocol)]
            assert {"deebert", "pabee", "cap"} <= set(rows.signal)
    assert set(results[results.cache == ""].task) == {"average"}


@pytest.mark.process
@pytest.mark.parametrize("little", [0, stages.LITTLE], ids=["all processes score", "the first process scores"])
def test_two_jobs_write_the_same_bytes_as_one(finished, suite, tmp_path, monkeypatch, little):
    monkeypatch.setattr(stages, "LITTLE", little)
    with Workers(2) as workers:
        assert run_suite(suite, tmp_path / "out", executor=workers).complete
    assert digests(tmp_path / "out") == digests(finished)


def test_fits_and_much_to_read_go_to_the_workers(suite, tmp_path):
    units = [
        cache.score for cache in cache_units(suite, plan_run(suite, load_registry()), [], tmp_path, tuple(SCHEMAS))
    ]
    workers = Workers(2)
    assert not stages.scores_here(units, workers, takes_long=True)
    assert stages.scores_here(units, workers, takes_long=False)
    sizes = [sum(file.stat().st_size for file in path.rglob("*.safetensors")) for path in suite.caches]
    assert [stages.bytes_to_read(unit) for unit in units] == sizes


def test_a_finished_run_is_kept_unless_forced(finished, suite):
    before = digests(finished)
    with pytest.raises(InputError, match="holds a finished run"):
        run_suite(suite, finished)
    assert run_suite(suite, finished, force=True).complete
    assert digests(finished) == before


def test_a_killed_run_resumes_from_what_is_finished(finished, suite, tmp_path, monkeypatch):
    done = []

    def killed_after_five(unit):
        if len(done) == 5:
            raise KeyboardInterrupt
        done.append(unit.label)
        return work_and_sign(unit)

    monkeypatch.setattr("exitbench.executors.unit.work_and_sign", killed_after_five)
    with pytest.raises(KeyboardInterrupt):
        run_suite(suite, tmp_path / "out")
    assert not (tmp_path / "out" / "run.json").exists()
    assert not (tmp_path / "out" / "results.parquet").exists()

    again = []

    def counted(unit):
        again.append(unit.label)
        return work_and_sign(unit)

    monkeypatch.setattr("exitbench.executors.unit.work_and_sign", counted)
    assert run_suite(suite, tmp_path / "out").complete
    assert not set(done) & set(again)
    joined = len(SCHEMAS) - 2
    assert len(done) + len(again) == 2 + 6 + 2 + joined
    assert digests(tmp_path / "out") == digests(finished)


def test_other_settings_use_nothing_of_an_unfinished_run(suite, tmp_path):
    folders = []
    for variant in (suite, suite.asking(seed=1)):
        caches = cache_units(variant, plan_run(variant, load_registry()), [], tmp_path, tuple(SCHEMAS))
        folders.append({unit.folder for cache in caches for unit in (cache.score, *cache.measures, cache.compare)})
    assert not folders[0] & folders[1]


def test_a_failing_signal_is_reported_and_the_rest_finishes(finished, suite, tmp_path):
    (tmp_path / "signals").mkdir()
    (tmp_path / "signals" / "broken.py").write_text(BROKEN)
    with_broken = replace(suite, signals=(*suite.signals, "broken"))
    out = tmp_path / "out"
    outcome = run_suite(with_broken, out, directories=[tmp_path / "signals"])
    assert [failure.label for failure in outcome.failures] == ["m-a-dev: broken", "m-b-dev: broken"]
    assert outcome.failures[0].reason == "signal broken raised RuntimeError: no third layer"
    assert json.loads((out / "run.json").read_text())["complete"] is False
    whole = RunFiles(finished).results
    rest = RunFiles(out).results
    assert "broken" not in set(rest.signal)
    assert rest.equals(whole)
    # Put right, the run needs no force.
    (tmp_path / "signals" / "broken.py").write_text(BROKEN.replace("layer.index == 3", "False"))
    again = run_suite(with_broken, out, directories=[tmp_path / "signals"])
    assert again.complete
    assert "broken" in set(again.files.results.signal)


def test_a_table_that_cannot_be_joined_leaves_the_run_open(finished, suite, tmp_path, monkeypatch):
    out, work = tmp_path / "out", JoinUnit.work

    def full_disk(unit):
        if unit.table == "samples":
            raise InputError("no space left on the disk")
        work(unit)

    with monkeypatch.context() as patch:
        patch.setattr(JoinUnit, "work", full_disk)
        outcome = run_suite(suite, out)
    assert outcome.failures == (Failure("samples: joined", "no space left on the disk"),)
    assert not outcome.complete
    assert run_suite(suite, out).complete
    assert digests(out) == digests(finished)


def test_ties_of_a_suite_reach_the_rows_of_dis_and_nothing_else(finished, suite, tmp_path):
    def split(out):
        rows = RunFiles(out).results
        return rows[(rows.measure == "dis") & (rows.signal == "pabee")].value, rows[rows.measure != "dis"].value

    outcome = run_suite(suite.asking(ties="strict"), tmp_path / "out")
    (half, others), (strict, others_again) = split(finished), split(outcome.path)
    assert (strict.dropna() < half.dropna()).all()
    np.testing.assert_array_equal(others, others_again)


def test_entries_that_share_a_value_measure_it_once(suite, tmp_path):
    both = replace(suite, caches=suite.caches[:1]).with_signals(("cap[alpha=0.1|1]", "cap[alpha=0.1]"))
    both = both.asking(protocols=("cross-fit",))
    rows = run_suite(both, tmp_path / "out").files.results
    assert set(rows[rows.signal == "cap"].parameters) == {
        "alpha=0.1|1,center=false",
        "alpha=0.1,center=false",
        "alpha=1,center=false",
    }
    at_layer = rows[(rows.measure == "dis") & (rows.layer == 2) & (rows.signal == "cap")]
    compared = at_layer.set_index("parameters").best.notna()
    assert compared.to_dict() == {
        "alpha=0.1|1,center=false": True,
        "alpha=0.1,center=false": True,
        "alpha=1,center=false": False,
    }


@pytest.mark.e2e
@pytest.mark.parametrize(("rows", "layers"), [(3, 12), (40, 2), (40, 3)])
def test_the_papers_signals_run_on_very_few_rows_and_very_few_layers(tmp_path, rows, layers):
    cache = synthetic_cache(tmp_path / "c", rows=rows, layers=layers, width=4, compact=True)
    outcome = run_suite(suite_of_caches([cache]).asking(resamples=5), tmp_path / "out")
    assert outcome.failures == ()
    results, notes = outcome.files.results, outcome.files.record["notes"]
    assert {"deebert", "cap", "oracle", "final"} <= set(results.signal)
    assert ((results.status == "ok") | (results.reason != "")).all()
    assert ("pabee" in set(results.signal)) == (layers > 2)
    assert any(note.startswith("pabee with 2 layers: left out") for note in notes) == (layers == 2)


def test_held_out_runs_on_a_second_cache(suite, tmp_path):
    test = suite.caches[0]
    calibration = synthetic_cache(tmp_path / "cal", rows=50, layers=5, width=6, compact=True, model="m", task="a")
    held_out = replace(suite, caches=(test,), held_out={test: calibration}).asking(protocols=("held-out",))
    rows = run_suite(held_out, tmp_path / "out").files.results
    assert set(rows.protocol) == {"held-out", "certified"}
    chosen = rows[
        (rows.signal == "deebert") & (rows["operating_point"] == "speed_up=1.5") & (rows.decisions != "randomised")
    ]
    assert chosen.threshold.notna().all()


@pytest.mark.e2e
def test_the_verb_prints_a_table_and_where_the_results_are(suite, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "160")
    words = [
        "run",
        str(suite.caches[0]),
        "--signals",
        "deebert",
        "--signals",
        "cap[alpha=0.1|1]",
        "--speed-ups",
        "1.5,2",
    ]
    words += ["--protocol", "in-sample", "--resamples", "5", "--jobs", "1"]
    done = CliRunner().invoke(build(), words)
    assert done.exit_code == 0, done.output
    assert "cap[alpha=0.1|1]" in done.output
    assert "results in out/m-a-dev" in done.output
    rows = RunFiles(tmp_path / "out" / "m-a-dev").results
    assert set(rows["operating_point"]) >= {"speed_up=1.5", "speed_up=2"}
    deebert_dis = rows[(rows.signal == "deebert") & (rows.measure == "dis") & (rows.layer == 2)].value.item()
    row = next(line for line in done.output.splitlines() if line.startswith("deebert"))
    assert any(
        deebert_dis == pytest.approx(float(cell.strip("*†‡§[],")), abs=0.5) for cell in row.split()[1:] if cell != "–"
    )


@pytest.mark.e2e
def test_the_verb_ends_with_exit_code_one_when_a_part_failed(suite, tmp_path):
    # Only where there are more rows than the first try takes, which would end the run before it begins.
    (tmp_path / "broken.py").write_text(
        BROKEN.replace("layer.index == 3", "layer.index == 3 and len(layer.logits) > 16")
    )
    words = ["run", str(suite.caches[0]), "--signals", "deebert", "--signals", "broken", "--signals-dir", str(tmp_path)]
    words += ["--protocol", "in-sample", "--resamples", "5", "--jobs", "1", "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(build(), words)
    assert done.exit_code == 1
    assert "failed: m-a-dev: broken: signal broken raised RuntimeError: no third layer" in done.stderr
    assert "incomplete results in" in done.stdout


def test_a_damaged_cache_gives_no_number_and_the_record_says_so(suite, tmp_path):
    for path in suite.caches:
        shutil.copytree(path, tmp_path / path.name)
    damaged = replace(suite, caches=tuple(tmp_path / path.name for path in suite.caches))
    shard = tmp_path / "m-b-dev/shard-00000.safetensors"
    content = bytearray(shard.read_bytes())
    content[-3] ^= 1
    shard.write_bytes(content)
    outcome = run_suite(damaged, tmp_path / "out")
    assert [failure.label for failure in outcome.failures] == ["m-b-dev: scores"]
    assert "shard-00000.safetensors: changed: expected sha256" in outcome.failures[0].reason
    record = RunFiles(tmp_path / "out").record
    assert {name: cache["verified"] for name, cache in record["caches"].items()} == {"m-a-dev": True, "m-b-dev": False}
    assert "m-b-dev" not in set(RunFiles(tmp_path / "out").results["cache"])
