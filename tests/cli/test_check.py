"""``exitbench check``: green on the committed fixtures, red for every change that moves a number."""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import exitbench.benchmarks.replay.exit_events
import exitbench.benchmarks.run.rows.ranking_rows
import exitbench.benchmarks.scoring.score_cache
from exitbench.benchmarks.baselines.check_suite import check_suite
from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.results.operating_point import at_threshold
from exitbench.benchmarks.results.status import Estimate
from exitbench.benchmarks.results.vocabulary import Ties
from exitbench.benchmarks.statistics.delong import dis_estimate
from exitbench.benchmarks.suites.suite_file import load_suite
from exitbench.cache import Cache, CacheWriter
from exitbench.places import BASELINES
from exitbench.signals import ExitSignal
from exitbench.signals.cap import CAP
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.e_lang import energy
from exitbench.signals.nsp import null_space_share
from exitbench.signals.registry.discovery import load_registry
from tests.support.checked_suite import SUITE, moved_signals, run, small

EVERY = '["deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap"]'


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
            torch.stack([head.weight for head in heads]).float(),
            torch.stack([head.bias for head in heads]).float(),
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


@pytest.mark.e2e
# The check of paper, a minute, is a job of its own on every push: .github/workflows/exitbench.yml.
@pytest.mark.parametrize("suite", ["smoke", pytest.param("paper", marks=pytest.mark.slow)])
def test_the_committed_fixtures_give_the_committed_numbers(suite: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = run(suite, "--jobs", 2)  # in processes without the tracing of coverage, which would double the time
    shown = capsys.readouterr().out
    assert code == 0, shown
    count = len((BASELINES / f"{suite}.csv").read_text().splitlines()) - 1
    assert shown == f"{suite}: all {count} numbers as in the baseline\n"
    assert count > 1000


@pytest.mark.e2e
def test_other_last_digits_move_none_of_the_committed_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    exact = exitbench.benchmarks.scoring.score_cache.validated_score

    def other_processor(signal: ExitSignal, *arguments: Any, **options: Any) -> torch.Tensor:
        """The score with its twelfth digit changed; equal scores stay equal, as on any processor."""
        score = exact(signal, *arguments, **options)
        return score * (1 + 1e-12 * torch.sin(1e9 * score)) if signal.name != "pabee" else score

    monkeypatch.setattr(exitbench.benchmarks.scoring.score_cache, "validated_score", other_processor)
    outcome = check_suite(load_suite("smoke"), BASELINES / "smoke.csv")
    assert outcome.moves == ()
    assert outcome.problems == ()


@pytest.mark.process
def test_any_number_of_jobs_is_green(pinned: Path) -> None:
    assert run(pinned / "small.toml", "--jobs", 2) == 0


@pytest.mark.long
def test_another_order_of_rows_is_green(pinned: Path, tmp_path: Path) -> None:
    order = np.random.default_rng(0).permutation(80)
    assert run(*small(rewritten(pinned, tmp_path / "shuffled", order))) == 0


@pytest.mark.long
def test_numbers_towards_another_target_have_a_baseline_of_their_own(
    pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = tmp_path / "final.csv"
    before = (pinned / "small.csv").read_bytes()
    assert run(*small(pinned), "--target", "final") == 1, "agreement is not what the labels say"
    assert run(*small(pinned), "--target", "final", "--update") == 2
    assert "expected --baseline beside --target and --update" in capsys.readouterr().err
    assert run(*small(pinned), "--target", "final", "--update", "--baseline", own) == 0
    assert run(*small(pinned), "--target", "final", "--baseline", own) == 0
    assert run(*small(pinned), "--target", "labels") == 0
    assert (pinned / "small.csv").read_bytes() == before


# -- red


def changed_constant(patch: pytest.MonkeyPatch) -> None:
    def score(self: CAP, layer: object) -> torch.Tensor:
        return torch.sigmoid(energy(layer) + 1.01 * self.alpha * null_space_share(layer))  # type: ignore[arg-type]

    patch.setattr(CAP, "score", score)


def another_tie_rule(patch: pytest.MonkeyPatch) -> None:
    def strict(ranking: Ranking, layer: int, ties: Ties) -> Estimate:
        assert ties == "half"
        return dis_estimate(ranking, layer, "strict")

    patch.setattr(exitbench.benchmarks.run.rows.ranking_rows, "dis_estimate", strict)


def swapped_layers(patch: pytest.MonkeyPatch) -> None:
    read = Cache.offset_norms

    def swapped(self: Cache, layer: int, rows: slice = slice(None)) -> torch.Tensor:
        return read(self, {2: 3, 3: 2}.get(layer, layer), rows)

    patch.setattr(Cache, "offset_norms", swapped)


@pytest.mark.long
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


@pytest.mark.long
def test_a_comparison_turned_non_strict_is_red_for_every_signal_that_has_one(
    pinned: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("exitbench.benchmarks.baselines.check_suite.ERROR_RESAMPLES", 2)
    (tmp_path / "every.toml").write_text(re.sub(r"signals = .*", f"signals = {EVERY}", SUITE))
    shutil.copytree(pinned / "caches", tmp_path / "caches")
    suite = load_suite(tmp_path / "every.toml")
    check_suite(suite, tmp_path / "every.csv", must_exist=False).update()
    strict = set()
    for name, signal in load_registry().signals.items():
        if name in json.loads(EVERY) and signal.exits_when in {"<", ">"}:
            strict.add(name)
            monkeypatch.setattr(signal, "exits_when", signal.exits_when + "=")
    outcome = check_suite(suite, tmp_path / "every.csv")
    assert {move.key[5] for move in outcome.moves} == strict
    assert {move.key[7] for move in outcome.moves} == {at_threshold("median")}, "no other number can show it"
    assert strict == {"deebert", "f-pabee", "pcee", "e-lang", "nsp", "cap"}


@pytest.mark.long
def test_a_comparison_turned_strict_in_the_replay_is_red(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    exact = exitbench.benchmarks.replay.exit_events.passed

    def always_strict(values: np.ndarray, certainty_thresholds: np.ndarray, *, strict: bool) -> np.ndarray:
        return exact(values, certainty_thresholds, strict=True)

    monkeypatch.setattr(exitbench.benchmarks.replay.exit_events, "passed", always_strict)
    assert run(*small(pinned)) == 1
    assert "pabee" in moved_signals(capsys.readouterr().out)


@pytest.mark.long
def test_one_flipped_label_is_red(pinned: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flipped = rewritten(pinned, tmp_path / "flipped", np.arange(80), flipped=17)
    assert run(*small(flipped), "--format", "markdown") == 1
    shown = capsys.readouterr().out
    assert "| little · in-sample · final | accuracy, final |" in shown
    assert re.search(r"\| accuracy, final \| [\d.]+ \| [\d.]+ \| [+-]1\.25 \|", shown), "one of 80 samples"


def test_a_signal_that_is_gone_is_red_with_one_clear_line(
    pinned: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("exitbench.signals.registry.discovery._loaded", {})  # as a new process finds it
    monkeypatch.delattr("exitbench.signals.deebert.DeeBERT")
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
