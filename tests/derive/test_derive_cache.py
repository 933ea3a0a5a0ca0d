import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from exitbench.cache import Cache, CacheWriter, Model, Task, compact, synthetic_cache, verify
from exitbench.derive import fit_steps
from exitbench.derive.cascade_caches import cascade
from exitbench.derive.derive_cache import derive
from exitbench.derive.registry import load_methods
from exitbench.errors import InputError
from exitbench.signals.registry.discovery import load_registry
from tests.support.command_line import exit_code

METHODS = load_methods()


def derived(written: str, train: Cache, source: Cache, out: Path, **options: bool) -> Cache:
    derive(METHODS.make(written), train, source, out, **options)
    return Cache(out)


@pytest.mark.parametrize("name", sorted(METHODS.classes))
def test_rows_labels_and_the_last_layer_stay(name: str, train: Cache, source: Cache, tmp_path: Path) -> None:
    made = derived(name, train, source, tmp_path / "out")
    assert verify(tmp_path / "out") == []
    assert np.array_equal(made.ids, source.ids) and np.array_equal(made.labels, source.labels)
    assert torch.equal(made.logits(made.layers), source.logits(source.layers))
    assert not torch.equal(made.logits(1), source.logits(1))
    assert made.manifest.split_role == "test"
    record = made.manifest.derived
    assert record is not None
    assert record["method"] == name
    assert record["parameters"] == METHODS.make(name).settings
    hashes = {role: entry["manifest_sha256"] for role, entry in record["sources"].items()}
    assert hashes == {"train": train.manifest_sha256, "source": source.manifest_sha256}
    assert made.has_heads == (not record["no_heads"])


@pytest.mark.parametrize("name", ["heads", "cascaded"])
def test_the_same_call_makes_the_same_bytes(name: str, train: Cache, source: Cache, tmp_path: Path) -> None:
    first, second = (derived(name, train, source, tmp_path / part) for part in ("a", "b"))
    for entry in first.manifest.files:
        assert (first.path / entry.file).read_bytes() == (second.path / entry.file).read_bytes()
    assert first.manifest == second.manifest


def test_a_call_that_was_stopped_ends_in_the_same_bytes(
    train: Cache, source: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from exitbench.derive import derive_cache

    whole = derived("heads", train, source, tmp_path / "whole")
    original, calls = derive_cache.answered_rows, []

    def stopping(*arguments: object, **options: bool) -> object:
        calls.append(arguments)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return original(*arguments, **options)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(derive_cache, "answered_rows", stopping)
        with pytest.raises(KeyboardInterrupt):
            derived("heads", train, source, tmp_path / "out")
    with pytest.raises(InputError, match="incomplete: 40 rows are written"):
        Cache(tmp_path / "out")
    again = derived("heads", train, source, tmp_path / "out")
    for entry in whole.manifest.files:
        assert (again.path / entry.file).read_bytes() == (whole.path / entry.file).read_bytes()
    with pytest.raises(InputError):
        derived("heads[penalty=1]", train, source, tmp_path / "out")


@pytest.mark.parametrize("name", ["heads", "etf", "cascaded", "ensemble", "vector", "past-future[epochs=3]"])
def test_a_fit_that_was_stopped_goes_on_after_its_last_whole_step(
    name: str, train: Cache, source: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = derived(name, train, source, tmp_path / "whole")
    original, solved = fit_steps.FitSteps.next, []

    def counted(steps: fit_steps.FitSteps, solve: Callable[[], fit_steps.Solution]) -> fit_steps.Solution:
        def watched() -> fit_steps.Solution:
            if len(solved) == stop_after:
                raise KeyboardInterrupt
            solved.append(steps.number)
            return solve()

        return original(steps, watched)

    monkeypatch.setattr(fit_steps.FitSteps, "next", counted)
    stop_after = 2
    with pytest.raises(KeyboardInterrupt):
        derived(name, train, source, tmp_path / "out")
    assert len(list((tmp_path / ".out.fit").iterdir())) == 2 and not (tmp_path / "out").exists()
    stop_after = 10**6
    again = derived(name, train, source, tmp_path / "out")
    assert solved == list(range(1, len(solved) + 1)) and len(solved) > 2, "each step is solved once"
    for entry in whole.manifest.files:
        assert (again.path / entry.file).read_bytes() == (whole.path / entry.file).read_bytes()
    assert again.manifest == whole.manifest
    assert not list(tmp_path.glob(".*"))


def test_steps_of_another_fit_and_damaged_ones_are_solved_again(
    train: Cache, source: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = derived("heads", train, source, tmp_path / "whole")
    folder, original = tmp_path / ".out.fit", fit_steps.FitSteps.next

    def stopping(steps: fit_steps.FitSteps, solve: Callable[[], fit_steps.Solution]) -> fit_steps.Solution:
        if steps.number == 2:
            raise KeyboardInterrupt
        return original(steps, solve)

    with monkeypatch.context() as patch:
        patch.setattr(fit_steps.FitSteps, "next", stopping)
        with pytest.raises(KeyboardInterrupt):
            derived("heads[penalty=1]", train, source, tmp_path / "out")
    assert len(list(folder.iterdir())) == 2
    (folder / "step-00002.safetensors").write_bytes(b"no tensors")
    again = derived("heads", train, source, tmp_path / "out")
    for entry in whole.manifest.files:
        assert (again.path / entry.file).read_bytes() == (whole.path / entry.file).read_bytes()
    with pytest.raises(InputError):
        derived("heads[penalty=1]", train, source, tmp_path / "out")
    assert not folder.exists(), "what is refused leaves nothing"


def test_every_published_signal_runs_on_it_or_says_why_not(train: Cache, source: Cache, tmp_path: Path) -> None:
    from exitbench.benchmarks.scoring.calibration_layers import cannot_run
    from exitbench.benchmarks.scoring.score_cache import score

    linear = derived("heads", train, source, tmp_path / "linear", compact=True)
    other = derived("ensemble", train, source, tmp_path / "other")
    registry = load_registry()
    for name in ("deebert", "right-tool", "pabee", "f-pabee", "pcee", "e-lang", "nsp", "cap"):
        signal = registry.make(name)
        assert np.isfinite(score(linear, signal)[2]).all()
        why = cannot_run(other, signal)
        assert ("an ensemble's answer is a sum of log-probabilities" in why) == (name in ("nsp", "cap"))
    assert not linear.has_features and linear.stores_offset_norms


def test_a_temperature_keeps_offset_norms_without_features(train: Cache, source: Cache, tmp_path: Path) -> None:
    for cache, name in ((train, "t"), (source, "s")):
        compact(cache.path, tmp_path / name)
    small = Cache(tmp_path / "s")
    made = derived("temperature", Cache(tmp_path / "t"), small, tmp_path / "out")
    assert torch.equal(made.offset_norms(2), small.offset_norms(2))
    moved = derived("vector", Cache(tmp_path / "t"), small, tmp_path / "moved")
    assert not moved.has_offset_norms, "a shift of the bias moves the offset, and the norms are not known"


def test_a_source_without_heads_hands_its_reason_on(tmp_path: Path) -> None:
    """What is derived from a network whose exits are not linear says why, however often it is derived from."""
    why = "its exits are curved"
    arrays = {"labels": np.arange(40) % 2, "logits": np.random.default_rng(0).normal(size=(3, 40, 2)).astype("f4")}
    with CacheWriter(
        tmp_path / "first",
        task=Task("sst2", ("a", "b")),
        split="dev",
        model=Model("m", None, 3, None),
        provenance={"no_heads": why},
    ) as writer:
        writer.add(**arrays)
    reasons = []
    for name, last in (("temperature", "first"), ("vector", "temperature"), ("ensemble", "vector")):
        given = Cache(tmp_path / last)
        reasons.append(derived(name, given, given, tmp_path / name).manifest.no_heads)
    assert reasons[:2] == [why] * 2
    assert reasons[2].startswith("an ensemble's answer")
    cascade([Cache(tmp_path / "first")] * 2, tmp_path / "twice", costs=[1, 2])
    assert Cache(tmp_path / "twice").manifest.no_heads == f"network first has none: {why}"


def test_rows_that_the_method_saw_are_marked(train: Cache, tmp_path: Path) -> None:
    assert derived("heads", train, train, tmp_path / "out").manifest.split_role == "train"


def test_exits_of_their_own_width_get_heads_too(tmp_path: Path) -> None:
    caches = [
        Cache(synthetic_cache(tmp_path / split, rows=60, layers=3, widths=[4, 6, 8], costs=[1, 2, 5], split=split))
        for split in ("calibration", "dev")
    ]
    made = derived("heads", *caches, tmp_path / "out")
    assert made.widths == (4, 6, 8) and made.costs == (1, 2, 5)
    assert verify(made.path) == []
    with pytest.raises(InputError, match="all exits need one width"):
        derived("past-future", *caches, tmp_path / "other")


def test_what_a_cache_has_besides_travels(tmp_path: Path) -> None:
    caches = [
        Cache(synthetic_cache(tmp_path / split, rows=60, layers=3, outputs=["lte"], group_rows=3, split=split))
        for split in ("calibration", "dev")
    ]
    made = derived("vector", *caches, tmp_path / "out")
    assert torch.equal(made.output("lte", 2), caches[1].output("lte", 2))
    assert made.groups is not None and np.array_equal(made.groups, caches[1].groups)


def test_how_the_network_was_trained_travels(train: Cache, source: Cache, tmp_path: Path) -> None:
    """The recipe is of the network, which a derived cache is still of; a reason for missing heads is of the cache."""
    trained = tmp_path / "trained"
    shutil.copytree(source.path, trained)
    more = (("epochs", 2), ("no_heads", "an old reason"), ("recipe", "cosee"))
    (trained / "manifest.json").write_text(replace(source.manifest, extra_provenance=more).to_json())
    made = derived("heads", train, Cache(trained), tmp_path / "out")
    assert made.manifest.extra_provenance == (("epochs", 2), ("recipe", "cosee"))
    assert made.manifest.provenance == source.manifest.provenance
    assert verify(made.path) == []


def test_an_unlabelled_cache_teaches_what_needs_no_label(source: Cache, tmp_path: Path) -> None:
    options = {"rows": 60, "layers": 4, "classes": 3, "width": 6, "feature_dtype": "float32", "split": "calibration"}
    mute = Cache(synthetic_cache(tmp_path / "mute", labelled=False, **options))
    assert derived("distilled", mute, source, tmp_path / "out").rows == source.rows
    for name in ("heads", "ensemble"):
        with pytest.raises(InputError, match="learns from labels, which cache mute does not hold"):
            derived(name, mute, source, tmp_path / name)


def test_caches_of_other_networks_are_refused(train: Cache, source: Cache, tmp_path: Path) -> None:
    options = {"rows": 20, "layers": 4, "classes": 3, "width": 6, "feature_dtype": "float32"}
    other = {
        "other model": {"model": "another"},
        "other layers": {"layers": 3},
        "other widths": {"width": 5},
        "other classes": {"classes": 2},
        "other heads": {"seed": 9},
    }
    for message, change in other.items():
        cache = Cache(synthetic_cache(tmp_path / message, **(options | change)))
        with pytest.raises(InputError, match=f"expected caches of one network, found {message}"):
            derive(METHODS.make("heads"), cache, source, tmp_path / "out")
    compact(train.path, tmp_path / "small")
    with pytest.raises(InputError, match="reads features, which cache small does not hold"):
        derive(METHODS.make("heads"), Cache(tmp_path / "small"), source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_caches_of_other_weights_are_refused(train: Cache, source: Cache, tmp_path: Path) -> None:
    """Two trainings of one model differ in their revision, where both caches say it; heads are not in every cache."""

    def at(cache: Cache, revision: str | None, name: str) -> Cache:
        shutil.copytree(cache.path, tmp_path / name)
        model = replace(cache.manifest.model, revision=revision)
        (tmp_path / name / "manifest.json").write_text(replace(cache.manifest, model=model).to_json())
        return Cache(tmp_path / name)

    learned, answered, unknown = at(train, "1" * 64, "t1"), at(source, "2" * 64, "s2"), at(source, None, "s0")
    with pytest.raises(InputError, match=r"found other revision: 1{64} in t1, 2{64} in s2"):
        derived("ensemble[weights=equal]", learned, answered, tmp_path / "out")
    assert not (tmp_path / "out").exists()
    assert derived("ensemble[weights=equal]", learned, unknown, tmp_path / "a").rows == source.rows
    assert derived("ensemble[weights=equal]", learned, at(source, "1" * 64, "s1"), tmp_path / "b").rows == source.rows


def test_damaged_sources_are_refused(source: Cache, tmp_path: Path) -> None:
    path = synthetic_cache(
        tmp_path / "t", rows=50, layers=4, classes=3, width=6, split="calibration", feature_dtype="float32"
    )
    file = next(path.glob("*.features.safetensors"))
    content = bytearray(file.read_bytes())
    content[-3] ^= 1
    file.write_bytes(content)
    with pytest.raises(InputError, match="sha256"):
        derived("heads", Cache(path), source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_class_without_rows_has_no_mean(
    source: Cache, train: Cache, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(train.__dict__, "labels", np.minimum(train.labels, 1))
    with pytest.raises(InputError, match="has none of 'class 2'"):
        derived("class-means", train, source, tmp_path / "out")


def test_verify_asks_where_a_derived_cache_comes_from(train: Cache, source: Cache, tmp_path: Path) -> None:
    made = derived("vector", train, source, tmp_path / "out")
    whole = made.manifest.derived
    assert whole is not None
    for part, message in (
        ({"sources": {}}, "expected the sources that it was derived from, found none"),
        (
            {"sources": {"train": {"cache": "x", "manifest_sha256": "abc"}}},
            "expected a sha256 of its source train, found 'abc'",
        ),
        ({"sources": ["x"]}, "expected the sources that it was derived from, found none"),
        ({"sources": {"train": 3}}, "expected a sha256 of its source train, found None"),
    ):
        manifest = replace(made.manifest, derived={**whole, **part})
        (made.path / "manifest.json").write_text(manifest.to_json())
        assert verify(made.path) == [f"{made.path}: {message}"]


@pytest.mark.long
def test_the_verb_says_what_it_made(
    train: Cache, source: Cache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--train", train.path, "--on", source.path, "--out", tmp_path / "out"]
    assert exit_code("derive", "vector", *words) == 0
    assert "vector, 4 layers, 90 samples" in capsys.readouterr().out
    assert exit_code("inspect", tmp_path / "out") == 0
    assert "vector (train net-calibration, source net-dev)" in capsys.readouterr().out
    assert exit_code("derive", "vectr", *words) == 2
    assert "unknown method 'vectr'. Did you mean vector?" in capsys.readouterr().err
    assert exit_code("derive", "heads[penalty=-1]", *words) == 2
    assert "method heads: penalty must be a number, above 0, found '-1'" in capsys.readouterr().err


def test_a_users_own_method_is_found(
    train: Cache, source: Cache, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "methods"
    folder.mkdir()
    own = (METHODS_FOLDER / "vector.py").read_text().replace('"vector"', '"own"')
    (folder / "own.py").write_text(own)
    words = ["--train", train.path, "--on", source.path, "--methods-dir", folder]
    assert exit_code("derive", "own", *words, "--out", tmp_path / "a") == 0
    (folder / "own.py").write_text(own.replace('"own"', '"heads"'))
    assert exit_code("derive", "heads", *words, "--out", tmp_path / "b") == 2
    assert "two methods are named 'heads'" in capsys.readouterr().err
    (folder / "own.py").write_text("1 / 0")
    assert exit_code("derive", "heads", *words, "--out", tmp_path / "b") == 2
    assert "own.py:1 in <module>: ZeroDivisionError: division by zero" in capsys.readouterr().err
    (folder / "own.py").write_text("")
    assert exit_code("derive", "heads", *words, "--out", tmp_path / "b") == 2
    assert "defines no method" in capsys.readouterr().err


METHODS_FOLDER = Path(METHODS.origins["vector"]).parent
