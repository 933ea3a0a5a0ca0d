import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from exitbench.cache import Cache, CacheWarning, import_arrays, verify
from exitbench.errors import InputError


class Executed:
    """A pickle of this makes a folder when it is read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.mkdir, (self.folder,)


@pytest.mark.parametrize("folder", [True, False], ids=["a folder", "npz"])
def test_a_pickle_in_place_of_an_array_is_refused_and_not_executed(tmp_path: Path, folder: bool) -> None:
    source = save(tmp_path / "source", example(), folder=True)
    (source / "labels.npy").write_bytes(pickle.dumps(Executed(tmp_path / "executed")))
    if not folder:
        with zipfile.ZipFile(tmp_path / "source.npz", "w") as archive:
            for path in source.iterdir():
                archive.write(path, path.name)
        source = tmp_path / "source.npz"
    with pytest.raises(InputError, match=r"found something else|to be numbers"):
        import_arrays(source, tmp_path / "cache", task="x", split="dev")
    assert not (tmp_path / "executed").exists()


def example(rows: int = 12, layers: int = 3, classes: int = 2, width: int = 4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    features = rng.normal(size=(layers, rows, width)).astype(np.float16)
    weight = rng.normal(size=(layers, classes, width)).astype(np.float32)
    bias = rng.normal(size=(layers, classes)).astype(np.float32)
    logits = np.einsum("mnw,mcw->mnc", features.astype(np.float32), weight) + bias[:, None]
    return {
        "labels": rng.integers(classes, size=rows),
        "logits": logits.astype(np.float32),
        "features": features,
        "weight": weight,
        "bias": bias,
        "ids": np.arange(100, 100 + rows),
    }


def save(path: Path, arrays: dict[str, Any], *, folder: bool) -> Path:
    if folder:
        path.mkdir()
        for name, array in arrays.items():
            np.save(path / f"{name}.npy", array)
        return path
    np.savez(path.with_suffix(".npz"), **arrays)
    return path.with_suffix(".npz")


@pytest.mark.parametrize("folder", [False, True], ids=["npz", "folder of npy"])
def test_arrays_become_a_good_cache(tmp_path: Path, folder: bool) -> None:
    arrays = example()
    import_arrays(
        save(tmp_path / "in", arrays, folder=folder), tmp_path / "out", task="sst2", split="dev", shard_rows=5
    )
    assert verify(tmp_path / "out") == []
    cache = Cache(tmp_path / "out")
    assert cache.manifest.task.classes == ("negative", "positive")
    assert cache.manifest.feature_dtype == "float16"
    np.testing.assert_array_equal(cache.ids, arrays["ids"])
    for m in range(3):
        np.testing.assert_array_equal(cache.logits(m + 1).numpy(), arrays["logits"][m])
        np.testing.assert_array_equal(cache.features(m + 1).numpy(), arrays["features"][m])


def test_logits_and_labels_are_enough(tmp_path: Path) -> None:
    arrays = {name: part for name, part in example(classes=3).items() if name in ("labels", "logits")}
    source = save(tmp_path / "in", arrays, folder=False)
    import_arrays(source, tmp_path / "out", task="intent", split="test", classes=("a", "b", "c"), metric="accuracy")
    cache = Cache(tmp_path / "out")
    assert (cache.has_heads, cache.has_features, cache.has_offset_norms, cache.width) == (False, False, False, None)
    assert cache.manifest.no_heads == "imported without weight and bias"
    assert cache.manifest.task.classes == ("a", "b", "c")
    np.testing.assert_array_equal(cache.ids, np.arange(12))


def test_given_offset_norms_are_kept_as_they_are(tmp_path: Path) -> None:
    arrays = {name: part for name, part in example().items() if name != "features"}
    arrays["offset_norm"] = np.random.default_rng(1).random((3, 12)).astype(np.float32)
    import_arrays(save(tmp_path / "in", arrays, folder=False), tmp_path / "out", task="rte", split="dev")
    np.testing.assert_array_equal(Cache(tmp_path / "out").offset_norms(2).numpy(), arrays["offset_norm"][1])


@pytest.mark.parametrize(("features", "stored"), [("bfloat16", "bfloat16"), ("float32", "float32"), (None, None)])
def test_features_are_stored_as_asked(tmp_path: Path, features: str | None, stored: str | None) -> None:
    source = save(tmp_path / "in", example(), folder=False)
    import_arrays(source, tmp_path / "out", task="sst2", split="dev", features=features)
    cache = Cache(tmp_path / "out")
    assert cache.manifest.feature_dtype == stored
    assert cache.stores_offset_norms
    assert verify(tmp_path / "out") == []


def test_float64_is_rounded_and_said(tmp_path: Path) -> None:
    arrays = example() | {"features": example()["features"].astype(np.float64)}
    with pytest.warns(CacheWarning, match="rounded to float32"):
        import_arrays(save(tmp_path / "in", arrays, folder=True), tmp_path / "out", task="sst2", split="dev")
    assert Cache(tmp_path / "out").manifest.feature_dtype == "float32"


def without(name: str) -> dict[str, np.ndarray]:
    return {key: part for key, part in example().items() if key != name}


WRONG: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "no logits": (without("logits"), {}, "expected an array 'logits'"),
    "weight alone": (without("bias"), {}, "expected weight and bias together"),
    "an unknown array": (example() | {"logit": np.zeros(3)}, {}, "found 'logit'. Did you mean logits?"),
    "flat logits": (example() | {"logits": np.zeros((3, 12))}, {}, "expected logits [layers, samples, classes]"),
    "one class": (example() | {"logits": np.zeros((3, 12, 1))}, {}, "expected at least 2 classes, found 1"),
    "one layer": (example() | {"logits": np.zeros((1, 12, 2))}, {}, "expected at least 2 layers, found 1"),
    "no rows": (example() | {"logits": np.zeros((3, 0, 2))}, {}, "expected at least one row"),
    "labels of another length": (example() | {"labels": np.zeros(5, int)}, {}, "expected labels [12], found [5]"),
    "features of another shape": (example() | {"features": np.zeros((3, 11, 4))}, {}, "expected features [3, 12, 4]"),
    "three classes for sst2": ({"labels": np.zeros(4, int), "logits": np.zeros((2, 4, 3))}, {}, "expected 2 classes"),
    "too few class names": (example(), {"classes": ("a", "b", "c")}, "expected 3 classes (a, b, c), found 2"),
    "an unknown metric": (example(), {"metric": "bleu"}, "expected metric accuracy or f1, found 'bleu'"),
    "an unknown dtype": (example(), {"features": "int8"}, "expected features float16"),
    "a dtype without features": (without("features"), {"features": "float16"}, "expected features to store as float16"),
    "objects": (example() | {"ids": np.array([{}] * 12, dtype=object)}, {}, "expected arrays of numbers"),
    "text": (example() | {"labels": np.array(["x"] * 12)}, {}, "expected labels to be numbers"),
    "a single number": (example() | {"weight": np.float32(3)}, {}, "expected an array 'weight', found a single number"),
}


@pytest.mark.parametrize(("arrays", "options", "message"), WRONG.values(), ids=WRONG.keys())
def test_arrays_that_cannot_be_a_cache_are_refused(
    tmp_path: Path, arrays: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    source = save(tmp_path / "in", arrays, folder=False)
    with pytest.raises(InputError) as caught:
        import_arrays(source, tmp_path / "out", **({"task": "sst2", "split": "dev"} | options))
    assert message in str(caught.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("kind", ["missing", "text", "bad npy"])
def test_a_source_that_is_no_array_file_is_refused(tmp_path: Path, kind: str) -> None:
    source = tmp_path / "in.npz"
    if kind == "text":
        source.write_text("hello")
    if kind == "bad npy":
        source = tmp_path / "folder"
        source.mkdir()
        (source / "labels.npy").write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(InputError, match="expected"):
        import_arrays(source, tmp_path / "out", task="sst2", split="dev")


def test_bad_values_are_refused_with_the_name_of_the_file(tmp_path: Path) -> None:
    arrays = example()
    arrays["logits"][1, 7, 0] = np.nan
    source = save(tmp_path / "in", arrays, folder=False)
    with pytest.raises(InputError, match=r"in\.npz: expected finite logits, found nan at layer 2, row 7"):
        import_arrays(source, tmp_path / "out", task="sst2", split="dev")


def test_ids_beyond_64_signed_bits_are_refused(tmp_path: Path) -> None:
    arrays = example() | {"ids": np.arange(12, dtype=np.uint64) + np.uint64(2**63)}
    with pytest.raises(InputError, match="expected ids to fit 64-bit signed numbers"):
        import_arrays(save(tmp_path / "in", arrays, folder=False), tmp_path / "out", task="sst2", split="dev")


def test_an_import_that_failed_does_not_go_on_with_other_data(tmp_path: Path) -> None:
    wrong = example()
    wrong["logits"][0, 11, 0] = np.nan
    with pytest.raises(InputError, match="found nan"):
        import_arrays(
            save(tmp_path / "a", wrong, folder=False), tmp_path / "out", task="sst2", split="dev", shard_rows=5
        )
    assert (tmp_path / "out" / "shard-00001.safetensors").exists()
    right = save(tmp_path / "b", example(), folder=False)
    with pytest.raises(InputError, match=r"cannot resume: data sha256 was .* remove the directory"):
        import_arrays(right, tmp_path / "out", task="sst2", split="dev", shard_rows=5)


def test_an_import_that_was_cut_goes_on_with_the_same_data(tmp_path: Path) -> None:
    source = save(tmp_path / "a", example(), folder=True)
    import_arrays(source, tmp_path / "whole", task="sst2", split="dev", shard_rows=5)
    import json
    import shutil

    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    manifest = json.loads((tmp_path / "cut" / "manifest.json").read_text())
    manifest |= {"complete": False, "rows": 5, "shards": manifest["shards"][:1]}
    (tmp_path / "cut" / "manifest.json").write_text(json.dumps(manifest))
    import_arrays(source, tmp_path / "cut", task="sst2", split="dev", shard_rows=5)
    for path in (tmp_path / "whole").iterdir():
        assert (tmp_path / "cut" / path.name).read_bytes() == path.read_bytes()


def test_rows_without_ids_get_them_from_their_label_and_features_in_any_order(tmp_path: Path) -> None:
    arrays = {name: array for name, array in example().items() if name != "ids"}
    arrays["features"][:, 5] = arrays["features"][:, 3]  # equal rows, told apart by their occurrence
    arrays["labels"][5] = arrays["labels"][3]
    order = np.random.default_rng(0).permutation(12)
    shuffled = {
        name: array[order] if name == "labels" else array[:, order] if name in ("features", "logits") else array
        for name, array in arrays.items()
    }
    shuffled["logits"] = shuffled["logits"] + 1.0  # logits say nothing about which row it is
    for name, given in (("plain", arrays), ("shuffled", shuffled)):
        np.savez(tmp_path / f"{name}.npz", **given)
        import_arrays(tmp_path / f"{name}.npz", tmp_path / name, task="t", split="dev")
    plain, other = Cache(tmp_path / "plain").ids, Cache(tmp_path / "shuffled").ids
    assert len(set(plain.tolist())) == 12
    assert sorted(plain.tolist()) == sorted(other.tolist())
    alone = ~np.isin(order, [3, 5])
    np.testing.assert_array_equal(other[alone], plain[order][alone])


def test_without_features_ids_are_row_numbers_and_a_warning_says_what_that_means(tmp_path: Path) -> None:
    arrays = {name: example()[name] for name in ("labels", "logits")}
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.warns(CacheWarning, match="folds and resamples depend on the order of the rows"):
        import_arrays(tmp_path / "a.npz", tmp_path / "cache", task="t", split="dev")
    np.testing.assert_array_equal(Cache(tmp_path / "cache").ids, np.arange(12))
