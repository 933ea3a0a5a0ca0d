"""Every verb that reads a cache compares what it reads with the hashes in the manifest, and nothing more."""

import shutil
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from tests.support.cache_writing import remove_norms
from tests.support.command_line import exit_code
from tests.support.tiny_models import tiny_model, write_reviews

pytestmark = pytest.mark.long

SHARD, FEATURES = "shard-00000.safetensors", "shard-00000.features.safetensors"


def damage(file: Path) -> None:
    """Change one bit of the last number, which stays a finite one."""
    content = bytearray(file.read_bytes())
    content[-4] ^= 1
    file.write_bytes(content)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache with features and without offset norms: ``cap`` reads the features, ``deebert`` reads logits."""
    monkeypatch.chdir(tmp_path)
    path = synthetic_cache(tmp_path / "cache", rows=120, layers=4, width=6)
    remove_norms(path)
    return path


VERBS = [
    ["inspect", "cache"],
    ["inspect", "cache", "--json"],
    ["score", "cache", "--signal", "deebert", "--out", "scores.npz"],
    ["threshold", "cache", "--signal", "deebert", "--speed-up", "1.5", "--resamples", "20"],
    ["threshold", "cache", "--signal", "deebert", "--max-loss", "5", "--resamples", "20", "--json"],
]
MAKERS = [
    ["compact", "cache", "made"],
    ["derive", "temperature", "--train", "cache", "--on", "cache", "--out", "made"],
    ["cascade", "cache", "cache", "--costs", "1,4", "--out", "made"],
]
"""These make another cache: a copy of damage, with a hash of its own, would look good."""


@pytest.mark.parametrize("words", [*VERBS, *MAKERS], ids=" ".join)
def test_a_changed_shard_is_refused_in_one_line(
    cache: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(cache / SHARD)
    assert exit_code(*words) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith(f"error: cache/{SHARD}: changed: expected sha256 ")
    assert captured.err.count("\n") == 1
    assert not Path("scores.npz").exists()
    assert not Path("made").exists()


@pytest.mark.parametrize("words", [*VERBS, *MAKERS], ids=" ".join)
def test_a_good_cache_is_answered(cache: Path, words: list[str]) -> None:
    assert exit_code(*words) == 0


@pytest.mark.parametrize("words", VERBS, ids=" ".join)
def test_features_that_nobody_reads_are_not_hashed(cache: Path, words: list[str]) -> None:
    damage(cache / FEATURES)
    assert exit_code(*words) == 0


@pytest.mark.parametrize(
    "words",
    [
        ["score", "cache", "--signal", "cap", "--out", "scores.npz"],
        ["threshold", "cache", "--signal", "cap[alpha=0.1|1]", "--speed-up", "1.5", "--resamples", "20"],
    ],
    ids=" ".join,
)
def test_features_that_a_signal_reads_are_hashed(
    cache: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    damage(cache / FEATURES)
    assert exit_code(*words) == 2
    assert f"{FEATURES}: changed: expected sha256" in capsys.readouterr().err


def test_the_cache_that_a_signal_learns_from_is_hashed_too(cache: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.copytree(cache, "other")
    words = ["score", "cache", "--signal", "right-tool[temperature=fitted]", "--out", "scores.npz", "--fit-on", "other"]
    assert exit_code(*words) == 0
    damage(Path("other") / SHARD)
    assert exit_code(*words, "--force") == 2
    assert f"other/{SHARD}: changed: expected sha256" in capsys.readouterr().err


def test_the_cache_of_a_calibration_is_hashed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_model(tmp_path / "model", depth=4)
    write_reviews(tmp_path / "data", {"dev": 60})
    assert exit_code("collect", "--model", "model", "--data-dir", "data", "--out", "cache", "--device", "cpu") == 0
    words = ["infer", "--model", "model", "--signal", "deebert", "--calibrate", "cache", "--device", "cpu"]
    words += ["--speed-up", "1.3", "--out", "answers.csv", "data/dev.tsv"]
    assert exit_code(*words) == 0
    damage(Path("cache") / SHARD)
    assert exit_code(*words, "--force") == 2
    assert f"cache/{SHARD}: changed: expected sha256" in capsys.readouterr().err
