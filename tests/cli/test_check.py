"""``exitbench check``: green on the committed fixtures, red for every change that moves a number."""

import re
import shutil
import xml.etree.ElementTree as ET
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import benchmarks.events
import benchmarks.measures
import benchmarks.scoring
from benchmarks.baseline import Move, read_baseline, write_baseline
from benchmarks.checking import Checked, check_suite
from benchmarks.delong import dis_estimate
from benchmarks.ranking import Ranking
from benchmarks.status import Estimate
from benchmarks.suite import Ties, load_suite
from exitbench.cache import Cache, CacheWriter, synthetic_cache
from exitbench.cli.app import main
from exitbench.cli.check import suites_of
from exitbench.cli.check_formats import github, junit, markdown, terminal
from exitbench.places import BASELINES
from signals.cap import CAP
from signals.deebert import DeeBERT
from signals.e_lang import energy
from signals.nsp import null_space_share
from signals.registry import load_registry

SUITE = """
name = "small"
caches = ["caches/little"]
signals = ["deebert", "pabee", "nsp", "cap[alpha=0.1|1]"]
layers = ["1/2"]
speed_ups = [2.0]
primary_speed_up = 2.0
rates_speed_up = 2.0
losses = [1.0]
protocols = ["in-sample"]
resamples = 20
seed = 0

[thresholds]
pabee = ["all"]
"*" = ["median"]
"""
EVERY = '["deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap"]'


def run(*words: object) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in ("check", *words)])
    return int(ended.value.code or 0)


@pytest.fixture(scope="module")
def pinned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a small cache, a suite of four signals and its baseline."""
    folder = tmp_path_factory.mktemp("pinned")
    synthetic_cache(folder / "caches/little", rows=80, layers=5, width=8, seed=3)
    (folder / "small.toml").write_text(SUITE)
    assert run(folder / "small.toml", "--update", "--jobs", 1) == 0
    return folder


def small(folder: Path) -> tuple[Path, str, int]:
    return folder / "small.toml", "--jobs", 1


def moved_signals(text: str) -> set[str]:
    """The signals that a plain table names."""
    return set(re.findall(r"^little · [\w-]+ · ([\w-]+)", text, flags=re.MULTILINE))


def rewritten(folder: Path, target: Path, order: np.ndarray, flipped: int | None = None) -> Path:
    """A copy of a pinned folder whose cache has its rows in another order, or one label flipped."""
    target.mkdir()
    for name in ("small.toml", "small.csv"):
        shutil.copy(folder / name, target / name)
    cache = Cache(folder / "caches/little")
    labels = cache.labels.copy()
    if flipped is not None:
        labels[flipped] = 1 - labels[flipped]
    layers = range(1, cache.layers + 1)
    heads = [cache.head(layer) for layer in layers]
    with CacheWriter(
        target / "caches/little",
        task=cache.manifest.task,
        split=cache.manifest.split,
        model=cache.manifest.model,
        heads=(
            torch.stack([one.weight for one in heads]).float(),
            torch.stack([one.bias for one in heads]).float(),
        ),
        feature_dtype=None,
        provenance={"note": "written again"},
    ) as writer:
        for _ in writer.pending(cache.rows):
            writer.add(
                labels=labels[order],
                ids=cache.ids[order],
                logits=torch.stack([cache.logits(layer)[order] for layer in layers]),
                offset_norm=torch.stack([cache.offset_norms(layer)[order] for layer in layers]),
            )
    return target


# -- green


def test_the_committed_fixtures_give_the_committed_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    code = run("smoke", "--jobs", 1)
    shown = capsys.readouterr().out
    assert code == 0, shown
    count = len((BASELINES / "smoke.csv").read_text().splitlines()) - 1
    assert shown == f"smoke: all {count} numbers as in the baseline\n"
    assert count > 1000


def test_other_last_digits_move_none_of_the_committed_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = benchmarks.scoring.validated_score

    def other_processor(*given: object) -> torch.Tensor:
        """The score with its twelfth digit changed; equal scores stay equal, as on any processor."""
        score = exact(*given)  # type: ignore[arg-type]
        return score * (1 + 1e-12 * torch.sin(1e9 * score)) if given[0].name != "pabee" else score  # type: ignore[attr-defined]

    monkeypatch.setattr(benchmarks.scoring, "validated_score", other_processor)
    outcome = check_suite(load_suite("smoke"), BASELINES / "smoke.csv")
    assert outcome.moves == ()
    assert outcome.problems == ()


def test_any_number_of_jobs_is_green(pinned: Path) -> None:
    assert run(pinned / "small.toml", "--jobs", 2) == 0


def test_another_order_of_rows_is_green(pinned: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(80)
    assert run(*small(rewritten(pinned, tmp_path / "shuffled", order))) == 0


# -- red


def changed_constant(patch: pytest.MonkeyPatch) -> None:
    def score(self: CAP, layer: object) -> torch.Tensor:
        return torch.sigmoid(energy(layer) + 1.01 * self.alpha * null_space_share(layer))  # type: ignore[arg-type]

    patch.setattr(CAP, "score", score)


def another_tie_rule(patch: pytest.MonkeyPatch) -> None:
    def strict(ranking: Ranking, layer: int, ties: Ties) -> Estimate:
        assert ties == "half"
        return dis_estimate(ranking, layer, "strict")

    patch.setattr(benchmarks.measures, "dis_estimate", strict)


def swapped_layers(patch: pytest.MonkeyPatch) -> None:
    read = Cache.offset_norms

    def swapped(self: Cache, layer: int, rows: slice = slice(None)) -> torch.Tensor:
        return read(self, {2: 3, 3: 2}.get(layer, layer), rows)

    patch.setattr(Cache, "offset_norms", swapped)


@pytest.mark.parametrize(
    ("mutate", "signals"),
    [(changed_constant, {"cap"}), (another_tie_rule, {"pabee"}), (swapped_layers, {"nsp", "cap"})],
)
def test_a_mutation_is_red_where_it_acts_and_nowhere_else(
    pinned: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    mutate: Callable[[pytest.MonkeyPatch], None],
    signals: set[str],
) -> None:
    mutate(monkeypatch)
    assert run(*small(pinned)) == 1
    assert moved_signals(capsys.readouterr().out) == signals


def test_a_comparison_turned_non_strict_is_red_for_every_signal_that_has_one(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("benchmarks.checking.ERROR_RESAMPLES", 2)
    (tmp_path / "every.toml").write_text(re.sub(r"signals = .*", f"signals = {EVERY}", SUITE))
    shutil.copytree(pinned / "caches", tmp_path / "caches")
    suite = load_suite(tmp_path / "every.toml")
    check_suite(suite, tmp_path / "every.csv", must_exist=False).update()
    strict = set()
    for name, signal in load_registry().signals.items():
        if signal.exits_when in {"<", ">"}:
            strict.add(name)
            monkeypatch.setattr(signal, "exits_when", signal.exits_when + "=")
    outcome = check_suite(suite, tmp_path / "every.csv")
    assert {move.key[5] for move in outcome.moves} == strict
    assert {move.key[7] for move in outcome.moves} == {"tau=median"}, "no other number can show it"
    assert strict == {"deebert", "f-pabee", "pcee", "e-lang", "nsp", "cap"}


def test_a_comparison_turned_strict_in_the_replay_is_red(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = benchmarks.events.passed

    def always_strict(values: np.ndarray, bars: np.ndarray, *, strict: bool) -> np.ndarray:
        return exact(values, bars, strict=True)

    monkeypatch.setattr(benchmarks.events, "passed", always_strict)
    assert run(*small(pinned)) == 1
    assert "pabee" in moved_signals(capsys.readouterr().out)


def test_one_flipped_label_is_red(pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flipped = rewritten(pinned, tmp_path / "flipped", np.arange(80), flipped=17)
    assert run(*small(flipped), "--format", "markdown") == 1
    shown = capsys.readouterr().out
    assert "| little · in-sample · final | accuracy, final |" in shown
    assert re.search(r"\| accuracy, final \| [\d.]+ \| [\d.]+ \| [+-]1\.25 \|", shown), "one of 80 samples"


def test_a_signal_that_is_gone_is_red_with_one_clear_line(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr("signals.deebert.DeeBERT")
    assert run(*small(pinned)) == 1
    shown = capsys.readouterr().out
    assert shown.splitlines()[0] == "small: could not be computed"
    assert "unknown signal 'deebert'" in shown


def test_a_signal_that_fails_is_red_and_named(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(self: DeeBERT, layer: object) -> torch.Tensor:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(DeeBERT, "score", broken)
    before = (pinned / "small.csv").read_bytes()
    assert run(*small(pinned), "--update") == 1
    assert "failed: little: deebert: " in capsys.readouterr().out
    assert (pinned / "small.csv").read_bytes() == before, "an incomplete computation must not become the baseline"


def test_a_cache_that_is_gone_is_red(pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("small.toml", "small.csv"):
        shutil.copy(pinned / name, tmp_path / name)
    assert run(*small(tmp_path)) == 1
    assert "1 of 1 caches are missing: little" in capsys.readouterr().out


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


def test_new_rows_and_missing_rows_are_moves(outcome: Checked) -> None:
    shown = terminal([outcome])
    assert {"nsp", "pabee", "deebert"} <= moved_signals(shown)
    missing = [line for line in shown.splitlines() if " missing " in line]
    new = [line for line in shown.splitlines() if " new " in line]
    assert any("tau=3" in line for line in missing), "PABEE's patience, in the baseline only"
    assert any("dis, layer 2" in line for line in new), "NSP's DIS, in the results only"
    assert re.search(r"dis, layer 2 +[\d.]+ +[\d.]+ +-7 +6.5  (yes|no) \(", shown)


def test_update_shows_the_table_rewrites_and_then_all_is_green(
    edited: Path, outcome: Checked, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = shutil.copy(edited / "small.csv", tmp_path / "mine.csv")
    assert run(*small(edited), "--baseline", file, "--update") == 0
    captured = capsys.readouterr()
    assert captured.out == terminal([outcome]) + "\n"
    assert captured.err == f"wrote {file}\n"
    assert run(*small(edited), "--baseline", file) == 0
    assert max(one.tolerance for one in read_baseline(file).values()) == 6.5, "set by hand, so it stays"


# -- for CI services


def test_github_gets_few_annotations_and_a_summary(
    edited: Path, outcome: Checked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(tmp_path / "summary.md"))
    assert run(*small(edited), "--format", "github") == 1
    lines = capsys.readouterr().out.splitlines()
    annotations = [line for line in lines if line.startswith("::error")]
    assert len(annotations) == 10
    assert annotations[0].startswith("::error title=exitbench check small::little · in-sample · ")
    assert lines[0] == "::group::exitbench check"
    assert "::endgroup::" in lines
    rest = len(outcome.moves) - 9
    assert annotations[-1] == f"::error title=exitbench check::{rest} more; the log has the whole table"
    assert (tmp_path / "summary.md").read_text() == markdown([outcome]) + "\n"


def test_github_commands_carry_signs_that_mean_something_there(outcome: Checked) -> None:
    problem = replace(outcome, suite="a:b,c", moves=(), problems=("100% gone\nreally",))
    assert github([problem]).splitlines()[-1] == "::error title=exitbench check a%3Ab%2Cc::100%25 gone%0Areally"


def test_junit_is_xml_with_a_case_for_each_signal(outcome: Checked) -> None:
    (suite,) = ET.fromstring(junit([outcome]).encode())
    cases = {case.attrib["name"]: case for case in suite}
    assert (suite.attrib["name"], int(suite.attrib["tests"])) == ("small", len(cases))
    assert int(suite.attrib["failures"]) == len([case for case in suite if case.find("failure") is not None]) >= 3
    assert cases["oracle"].find("failure") is None
    failure = cases["deebert[normalize=false]"].find("failure")
    assert failure is not None
    assert "dis, layer 2: was" in str(failure.text)


def test_junit_tells_a_problem_as_an_error(outcome: Checked) -> None:
    (suite,) = ET.fromstring(junit([replace(outcome, moves=(), problems=('no "x" & y < z',))]).encode())
    assert (suite.attrib["errors"], suite.attrib["failures"]) == ("1", "0")
    error = suite.find("testcase/error")
    assert error is not None
    assert error.attrib["message"] == 'no "x" & y < z'


def test_markdown_keeps_a_grid_inside_its_cell(outcome: Checked) -> None:
    grid = next(key for key in outcome.current if "|" in str(key[6]))
    moved = replace(outcome, moves=(Move(grid, 1.0, 2.0, 0.5, std_err=0.25),))
    (row,) = [line for line in markdown([moved]).splitlines() if line.startswith("| little")]
    assert "alpha=0.1\\|1" in row
    assert row.endswith("| 1 | 2 | +1 | 0.5 | yes (0.25) |")
    assert len(re.findall(r"(?<!\\)\|", row)) == 8


# -- wrong usage


def test_wrong_usage_and_unreadable_baselines_end_with_2(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(*small(pinned), "--baseline", tmp_path / "none.csv") == 2
    assert "no baseline at" in capsys.readouterr().err
    (tmp_path / "bad.csv").write_text("hello\n")
    assert run(*small(pinned), "--baseline", tmp_path / "bad.csv") == 2
    assert "is not a baseline" in capsys.readouterr().err
    assert run("--baseline", tmp_path / "bad.csv") == 2
    assert "belongs to one suite" in capsys.readouterr().err
    assert run("smokey") == 2
    assert "Did you mean" in capsys.readouterr().err
    assert run(*small(pinned), "--signals-dir", tmp_path / "nowhere") == 2
    assert run(*small(pinned), "--format", "xml") == 2


def test_without_a_suite_every_baseline_is_checked(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert [suite.name for suite, _ in suites_of(None, None)] == sorted(path.stem for path in BASELINES.glob("*.csv"))
    monkeypatch.setattr("exitbench.places.BASELINES", tmp_path)
    assert run() == 2
    assert "no baseline in" in capsys.readouterr().err


def test_every_committed_baseline_is_as_check_would_write_it(tmp_path: Path) -> None:
    for file in BASELINES.glob("*.csv"):
        write_baseline(tmp_path / file.name, read_baseline(file))
        assert (tmp_path / file.name).read_bytes() == file.read_bytes(), file.name


def test_baselines_read_every_signal_at_a_fixed_threshold() -> None:
    for file in BASELINES.glob("*.csv"):
        suite = load_suite(file.stem)
        read = {(key[5], key[7]) for key in read_baseline(file) if str(key[7]).startswith("tau=")}
        for text in suite.signals:
            name = text.split("[")[0]
            assert (name, "tau=1" if name == "pabee" else "tau=median") in read
        assert {at for name, at in read if name == "pabee"} >= {f"tau={t}" for t in range(1, 11)}
