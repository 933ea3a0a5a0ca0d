"""Signals that read what some caches do not hold: one line, the others go on, and a run of all that can is whole."""

from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.api import evaluate
from exitbench.benchmarks.results.files import RunFiles
from exitbench.benchmarks.scoring.calibration_layers import cannot_run
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.reports.run_data.finished_run import FinishedRun
from exitbench.reports.tables.all_tables import tables_of
from exitbench.reports.verdict.alerts import alerts_of
from exitbench.signals import load_registry
from tests.support.command_line import QUICK, exit_code

pytestmark = pytest.mark.long

READS_LTE = '''
from dataclasses import dataclass
from typing import ClassVar
from exitbench import ExitSignal, Reference

@dataclass(frozen=True)
class ReadsLte(ExitSignal):
    """The network's own exit score."""

    name: ClassVar[str] = "reads-lte"
    title: ClassVar[str] = "LTE"
    reference: ClassVar[Reference] = Reference("none", 2026, "")
    exits_when: ClassVar[str] = ">="
    inputs: ClassVar[frozenset] = frozenset({"outputs:lte"})

    def score(self, layer):
        return layer.outputs["lte"].double()
'''


@pytest.fixture
def caches(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/reads_lte.py").write_text(READS_LTE)
    size = {"rows": 80, "layers": 4, "width": 6, "compact": True}
    with_output = synthetic_cache(tmp_path / "with-dev", outputs=["lte", "other"], **size)
    return with_output, synthetic_cache(tmp_path / "bare-dev", heads=False, **size)


def run(tmp_path: Path, *words: str) -> int:
    options = ["--signals-dir", str(tmp_path / "mine"), "--out", str(tmp_path / "out"), *QUICK]
    return exit_code("run", *words, *options)


@pytest.mark.long
def test_a_cache_without_the_output_gets_one_line_and_the_run_ends_with_0(
    caches: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["--signals", "reads-lte", "--signals", "nsp"]
    assert run(tmp_path, *map(str, caches), *names) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert lines == [
        "note: left out: signal reads-lte reads the output 'lte', which cache bare-dev does not hold",
        "note: left out: signal nsp reads heads and offset norms, which cache bare-dev does not hold",
    ]
    files = RunFiles(tmp_path / "out")
    assert files.record["complete"]
    assert [line for line in files.record["notes"] if "bare-dev" in line] == [
        line.removeprefix("note: left out: ") for line in lines
    ]
    bare = next(cache for cache in FinishedRun(tmp_path / "out").caches if cache.name == "bare-dev")
    assert [signal for signal, _ in bare.left_out] == ["reads-lte", "nsp"]
    assert not [alert for alert in alerts_of(FinishedRun(tmp_path / "out")) if alert.severity == "error"]
    rows = files.table("results")
    dis = rows[(rows.measure == "dis") & rows.signal.isin(["reads-lte", "deebert", "nsp"]) & (rows.cache != "")]
    measured = {(row.cache, row.signal) for row in dis.itertuples()}
    assert measured == {
        ("with-dev", "reads-lte"),
        ("with-dev", "deebert"),
        ("with-dev", "nsp"),
        ("bare-dev", "deebert"),
    }


def test_all_that_read_what_a_cache_lacks_share_a_line_and_have_no_row_there(
    caches: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ["--signals", "berxit", "--signals", "she", "--signals", "margin"]
    assert exit_code("run", *caches, *names, "--out", tmp_path / "out", *QUICK[2:]) == 2
    assert "signal berxit reads features, which cache with-dev does not hold, and on none" in capsys.readouterr().err
    full = synthetic_cache(tmp_path / "full-dev", rows=80, layers=4, width=6, model="other")
    assert exit_code("run", *caches, full, *names, "--out", tmp_path / "out", *QUICK[2:]) == 0
    lines = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    shared = "note: left out: signals berxit, she read features, which cache"
    assert lines == [f"{shared} {path.name} does not hold" for path in caches]
    tables = [table for table in tables_of(FinishedRun(tmp_path / "out")) if table.model == "synthetic"]
    assert tables
    for table in tables:
        assert not any(row.signal in ("berxit", "she") for row in table.rows)
    assert any(note == "Cannot run here and have no row: BERxiT, SHE." for table in tables for note in table.notes)


def test_a_named_signal_that_can_run_on_none_of_the_named_caches_is_refused(
    caches: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, str(caches[1]), "--signals", "reads-lte") == 2
    assert capsys.readouterr().err.strip().endswith("reads the output 'lte', which cache bare-dev does not hold")
    assert not (tmp_path / "out").exists()


def test_what_a_cache_cannot_teach_is_left_out_with_its_reason_and_refused_where_it_was_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    few = synthetic_cache(tmp_path / "few-dev", rows=24, layers=4, width=6, compact=True)
    many = synthetic_cache(tmp_path / "many-dev", rows=90, layers=4, width=6, compact=True, model="other")
    words = ["--signals", "meta", "--signals", "deebert", "--out", tmp_path / "out", *QUICK[2:]]
    assert exit_code("run", few, *words) == 2
    assert "cache few-dev: signal meta needs 10 samples that are right and 10 that" in capsys.readouterr().err
    assert exit_code("run", few, many, *words) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "left out" in line]
    assert line.startswith("note: left out: cache few-dev: signal meta needs 10 samples")
    assert RunFiles(tmp_path / "out").record["complete"]
    with pytest.raises(InputError, match="cache few-dev: signal meta needs 10 samples"):
        evaluate(few, ["meta"], resamples=10)


def test_the_scores_are_the_output_itself(caches: tuple[Path, Path], tmp_path: Path) -> None:
    from exitbench.signals import signals_in

    (signal,) = signals_in(tmp_path / "mine/reads_lte.py")
    opened = Cache(caches[0])
    expected = np.stack([opened.output("lte", layer).numpy() for layer in (1, 2, 3)])
    np.testing.assert_array_equal(score(opened, signal()), expected.astype(np.float64))


def test_a_notebook_is_told_at_once(caches: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="signal nsp reads heads and offset norms, which cache bare-dev does not"):
        evaluate(caches[1], ["deebert", "nsp"], resamples=10)


def test_where_exits_differ_in_width_a_signal_that_treats_them_alike_is_left_out(tmp_path: Path) -> None:
    sizes = {"rows": 120, "layers": 4, "classes": 3}
    uneven = synthetic_cache(tmp_path / "uneven", widths=[6, 8, 8, 8], **sizes)
    even = synthetic_cache(tmp_path / "even", width=8, **sizes)
    line = "in cache uneven they have the widths 6, 8, 8"
    for text in ("berxit[form=published]", "calibrated[of=berxit[form=published]]", "saturation"):
        signal = load_registry().make(text)
        assert cannot_run(Cache(uneven), signal) == f"signal {signal.text} treats all layers alike, and {line}"
        assert cannot_run(Cache(even), signal) == ""
    last = synthetic_cache(tmp_path / "last", widths=[8, 8, 8, 16], **sizes)  # the last layer is no exit
    for text, cache in (("berxit", uneven), ("palbert", uneven), ("berxit[form=published]", last)):
        assert score(cache, text, fit_on=cache).shape == (3, 120)
