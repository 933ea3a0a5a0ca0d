"""What version 2 of the cache adds: outputs, costs, widths, groups, roles and caches without labels."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from exitbench.cache import Cache, CacheWriter, Model, Output, Task, cache_card, compact, synthetic_cache, verify
from exitbench.cache.format.manifest import MANIFEST
from exitbench.cache.format.manifest_file import read_manifest
from exitbench.errors import InputError
from tests.support.cache_writing import remove_norms

LAYERS, CLASSES, WIDTHS, ROWS = 3, 2, (4, 6, 5), 20
SETTINGS: dict[str, Any] = {
    "task": Task("demo", ("no", "yes")),
    "split": "dev",
    "model": Model("net", None, LAYERS, None),
    "feature_dtype": "float32",
    "shard_rows": 8,
    "costs": [0.25, 0.5, 1.25],
    "cost_unit": "milliseconds",
    "outputs": [Output("lte", None, "P(right)", "joint"), Output("policy", 2)],
    "groups": True,
    "role": "train",
}


def everything(rows: int = ROWS) -> dict[str, Any]:
    rng = np.random.default_rng(0)
    weight = [rng.normal(size=(CLASSES, width)).astype("float32") for width in WIDTHS]
    bias = rng.normal(size=(LAYERS, CLASSES)).astype("float32")
    features = [rng.normal(size=(rows, width)).astype("float32") for width in WIDTHS]
    logits = np.stack([x @ w.T + b for x, w, b in zip(features, weight, bias, strict=True)])
    return {
        "labels": rng.integers(CLASSES, size=rows),
        "logits": logits,
        "features": features,
        "groups": np.arange(rows) // 3,
        "lte": rng.random((LAYERS, rows)).astype("float32"),
        "policy": rng.random((LAYERS, rows, 2)).astype("float32"),
        "heads": (weight, bias),
    }


def write(path: Path, data: dict[str, Any], *, batch: int = 7, without: tuple[str, ...] = (), **options: Any) -> Path:
    with CacheWriter(path, **({"heads": data["heads"]} | SETTINGS | options)) as writer:
        for start in range(writer.rows_done, len(data["labels"]), batch):
            rows = slice(start, start + batch)
            parts = {
                "labels": data["labels"][rows],
                "logits": data["logits"][:, rows],
                "features": [part[rows] for part in data["features"]],
                "groups": data["groups"][rows],
                "outputs": {"lte": data["lte"][:, rows], "policy": data["policy"][:, rows]},
            }
            writer.add(**{name: part for name, part in parts.items() if name not in without})
    return path


def test_everything_that_was_written_is_read(tmp_path: Path) -> None:
    data = everything()
    opened = Cache(write(tmp_path / "c", data))
    assert opened.manifest.version == 2
    assert verify(tmp_path / "c") == []
    assert opened.costs == (0.25, 0.5, 1.25)
    assert opened.widths == WIDTHS
    assert (opened.output_names, opened.manifest.split_role) == (("lte", "policy"), "train")
    np.testing.assert_array_equal(opened.groups, data["groups"])
    for m in range(LAYERS):
        np.testing.assert_array_equal(opened.features(m + 1).numpy(), data["features"][m])
        np.testing.assert_array_equal(opened.output("lte", m + 1).numpy(), data["lte"][m])
        np.testing.assert_array_equal(opened.output("policy", m + 1, slice(5, 11)).numpy(), data["policy"][m][5:11])
        np.testing.assert_array_equal(opened.head(m + 1).weight.numpy(), data["heads"][0][m].astype("float64"))
        shifted = data["features"][m] + np.linalg.pinv(data["heads"][0][m]) @ data["heads"][1][m]
        np.testing.assert_allclose(opened.offset_norms(m + 1), np.linalg.norm(shifted, axis=1), rtol=1e-5)


def test_the_files_are_as_the_description_of_the_format_says(tmp_path: Path) -> None:
    data = everything()
    write(tmp_path / "c", data)
    heads, shard = load_file(tmp_path / "c/heads.safetensors"), load_file(tmp_path / "c/shard-00001.safetensors")
    features = load_file(tmp_path / "c/shard-00001.features.safetensors")
    assert {name: tuple(part.shape) for name, part in heads.items()} == {
        "weight.01": (2, 4),
        "weight.02": (2, 6),
        "weight.03": (2, 5),
        "bias": (3, 2),
    }
    assert set(shard) == {"labels", "ids", "groups", "logits", "offset_norm", "output.lte", "output.policy"}
    assert {name: tuple(part.shape) for name, part in features.items()} == {
        "features.01": (8, 4),
        "features.02": (8, 6),
        "features.03": (8, 5),
    }
    np.testing.assert_array_equal(shard["output.policy"].numpy(), data["policy"][:, 8:16])


def test_what_needs_nothing_of_version_2_is_written_as_version_1(tmp_path: Path) -> None:
    opened = synthetic_cache(tmp_path / "plain", rows=9, layers=3, width=4)
    written = json.loads((opened / MANIFEST).read_text())
    assert written["schema"] == 1
    assert set(written) == {
        *("schema", "complete", "task", "split", "model", "rows", "feature_dtype", "heads", "shards", "provenance")
    }
    cache = Cache(opened)
    assert (cache.costs, cache.groups, cache.output_names, cache.labelled) == (None, None, (), True)
    assert (cache.manifest.target, cache.manifest.split_role) == ("labels", "test")


@pytest.mark.parametrize("batch", [1, 8, 20])
def test_the_size_of_the_batches_changes_no_byte(tmp_path: Path, batch: int) -> None:
    same = {"provenance": {"started": "2026-01-01T00:00:00+00:00"}}
    write(tmp_path / "a", everything(), **same)
    write(tmp_path / "b", everything(), batch=batch, **same)
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes(), path.name


def test_a_manifest_of_version_2_survives_reading_and_writing_byte_for_byte(tmp_path: Path) -> None:
    path = write(tmp_path / "c", everything(), derived={"method": "cascade", "parameters": {"taus": (1, 2)}})
    manifest = read_manifest(path)
    assert manifest.to_json() == (path / MANIFEST).read_text()
    assert manifest.derived == {"method": "cascade", "parameters": {"taus": [1, 2]}}


@pytest.mark.parametrize("stored_norms", [True, False])
def test_a_compact_copy_keeps_all_but_the_features(tmp_path: Path, stored_norms: bool) -> None:
    source = write(tmp_path / "c", everything())
    norms = [Cache(source).offset_norms(m) for m in range(1, LAYERS + 1)]
    if not stored_norms:
        remove_norms(source)
    compact(source, tmp_path / "small")
    small = Cache(tmp_path / "small")
    assert verify(tmp_path / "small") == []
    assert (small.costs, small.output_names, small.widths) == ((0.25, 0.5, 1.25), ("lte", "policy"), WIDTHS)
    np.testing.assert_array_equal(small.groups, Cache(source).groups)
    for m in range(1, LAYERS + 1):
        assert torch.equal(small.output("policy", m), Cache(source).output("policy", m))
        torch.testing.assert_close(small.offset_norms(m), norms[m - 1])


def test_without_labels_right_is_what_the_last_layer_says(tmp_path: Path) -> None:
    data = everything()
    opened = Cache(write(tmp_path / "c", data, labelled=False, without=("labels",)))
    assert (opened.labelled, opened.manifest.target) == (False, "final")
    np.testing.assert_array_equal(opened.truth(), data["logits"][-1].argmax(axis=1))
    for read in (lambda: opened.labels, lambda: opened.truth("labels")):
        with pytest.raises(InputError, match="expected labels, found a cache without them"):
            read()
    card = cache_card(opened)
    assert card["accuracy_per_layer"][-1] == 100.0
    assert card["classes"] == {"no": None, "yes": None}


def test_a_labelled_cache_may_be_judged_by_either_target(tmp_path: Path) -> None:
    data = everything()
    opened = Cache(write(tmp_path / "c", data))
    np.testing.assert_array_equal(opened.truth(), data["labels"])
    np.testing.assert_array_equal(opened.truth("final"), data["logits"][-1].argmax(axis=1))
    assert Cache(write(tmp_path / "d", data, target="final")).manifest.target == "final"


def test_the_card_names_what_is_new(tmp_path: Path) -> None:
    card = cache_card(Cache(write(tmp_path / "c", everything())))
    assert (card["schema"], card["width"], card["groups"], card["role"]) == (2, [4, 6, 5], 7, "train")
    assert (card["costs"], card["cost_unit"]) == ([0.25, 0.5, 1.25], "milliseconds")
    assert card["outputs"] == {"lte": "P(right)", "policy": ""}


def test_equal_widths_given_layer_by_layer_are_one_width(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    weight = [rng.normal(size=(2, 4)).astype("float32") for _ in range(3)]
    model = Model("net", None, 3, None)
    with CacheWriter(
        tmp_path / "c", task=SETTINGS["task"], split="dev", model=model, heads=(weight, np.zeros((3, 2)))
    ) as writer:
        writer.add(labels=[0, 1], logits=np.zeros((3, 2, 2), "float32"))
    opened = Cache(tmp_path / "c")
    assert (opened.manifest.version, opened.width) == (1, 4)
    assert tuple(load_file(tmp_path / "c/heads.safetensors")["weight"].shape) == (3, 2, 4)


# -- what is refused -----------------------------------------------------------------------------------

PLANS: dict[str, tuple[dict[str, Any], str]] = {
    "falling costs": ({"costs": [0.5, 0.4, 1]}, "expected costs that never fall from layer to layer"),
    "a negative cost": ({"costs": [-0.5, 0.4, 1]}, "costs"),
    "a cost of nothing": ({"costs": [0, 0.4, 1]}, "costs"),
    "an infinite cost": ({"costs": [1, 2, float("inf")]}, "expected JSON"),
    "too few costs": ({"costs": [0.5, 1]}, "expected 3 costs, one for each layer, found 2"),
    "an unknown unit": ({"cost_unit": "euros"}, "cost_unit"),
    "an unknown role": ({"role": "exam"}, "split_role"),
    "too few widths": ({"widths": [4, 6]}, "expected head weight"),
    "other widths than the heads": ({"widths": [4, 6, 6]}, "expected head weight [[2, 4], [2, 6], [2, 6]]"),
    "an output twice": (
        {"outputs": [Output("lte"), Output("lte", 2)]},
        "expected every output once, found 'lte' twice",
    ),
    "a path for an output": ({"outputs": [Output("../lte")]}, "outputs.0.name"),
    "labels as target without labels": ({"labelled": False, "target": "labels"}, "expected the target final"),
    "a head that is not finite": (
        {"heads": ([np.full((2, 4), np.nan), np.zeros((2, 6)), np.zeros((2, 5))], np.zeros((3, 2)))},
        "expected finite head weights, found one at layer 1",
    ),
}


@pytest.mark.parametrize(("options", "message"), PLANS.values(), ids=PLANS.keys())
def test_a_plan_that_cannot_be_a_cache_is_refused_at_once(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(InputError) as caught:
        write(tmp_path / "c", everything(), **options)
    assert message in str(caught.value)
    assert not (tmp_path / "c").exists()


BATCHES: dict[str, tuple[dict[str, Any], str]] = {
    "no groups": ({"without": ("groups",)}, "expected groups, found none"),
    "unexpected groups": ({"groups": False}, "expected no groups, found some"),
    "no labels": ({"without": ("labels",)}, "expected labels, found none; a writer says so with labelled"),
    "unexpected labels": ({"labelled": False}, "expected no labels, found some"),
    "no outputs": ({"without": ("outputs",)}, "expected the outputs lte, policy, found none"),
    "another size": ({"outputs": [Output("lte"), Output("policy", 3)]}, "expected output policy of shape [3, 7, 3]"),
    "one array for exits of many widths": ({"features": np.zeros((3, 20, 4))}, "expected a list of features"),
    "groups of another length": ({"bad": {"groups": np.zeros(3, int)}}, "expected groups of shape [7], found [3]"),
    "features of another width": (
        {"bad": {"features": [np.zeros((7, 4)), np.zeros((7, 4)), np.zeros((7, 5))]}},
        "expected features.02 of shape [7, 6], found [7, 4]",
    ),
    "features of too few layers": ({"bad": {"features": [np.zeros((7, 4))]}}, "expected features of 3 layers, found 1"),
    "an output that is not finite": (
        {"bad": {"outputs": {"lte": np.full((3, 7), np.nan), "policy": np.zeros((3, 7, 2))}}},
        "expected finite output lte, found nan at layer 1, row 0",
    ),
    "groups as floats": ({"bad": {"groups": np.zeros(7)}}, "expected groups to be whole numbers"),
}


@pytest.mark.parametrize(("options", "message"), BATCHES.values(), ids=BATCHES.keys())
def test_a_batch_that_the_plan_does_not_describe_is_refused(
    tmp_path: Path, options: dict[str, Any], message: str
) -> None:
    data = everything()
    bad = options.get("bad", {}) | ({"features": options["features"][:, :7]} if "features" in options else {})
    plan = {key: value for key, value in options.items() if key not in ("bad", "without", "features")}
    batch = {
        "labels": data["labels"][:7],
        "logits": data["logits"][:, :7],
        "features": [part[:7] for part in data["features"]],
        "groups": data["groups"][:7],
        "outputs": {"lte": data["lte"][:, :7], "policy": data["policy"][:, :7]},
    } | bad
    batch = {name: part for name, part in batch.items() if name not in options.get("without", ())}
    with (
        pytest.raises(InputError) as caught,
        CacheWriter(tmp_path / "c", **({"heads": data["heads"]} | SETTINGS | plan)) as writer,
    ):
        writer.add(**batch)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"costs": [1, 2, 3]}, "costs was"),
        ({"role": "test"}, "split role was train"),
        ({"outputs": [Output("lte", None, "other"), Output("policy", 2)]}, "outputs was"),
        ({"groups": False}, "groups was True"),
    ],
)
def test_another_collection_does_not_resume_this_one(tmp_path: Path, changes: dict[str, Any], message: str) -> None:
    data = everything()
    with pytest.raises(InputError, match="found nan"):
        write(tmp_path / "c", data | {"logits": np.where(np.arange(ROWS)[:, None] == 18, np.nan, data["logits"])})
    with pytest.raises(InputError, match="cannot resume") as caught:
        write(tmp_path / "c", data, **changes)
    assert message in str(caught.value)
    write(tmp_path / "c", data)
    assert verify(tmp_path / "c") == []


def test_an_output_that_is_not_there_is_named_with_those_that_are(tmp_path: Path) -> None:
    opened = Cache(write(tmp_path / "c", everything()))
    with pytest.raises(InputError, match=r"expected an output 'lt', found lte, policy\. Did you mean lte\?"):
        opened.output("lt", 1)


MANIFESTS: dict[str, tuple[dict[str, Any], str]] = {
    "version 1 with costs": ({"schema": 1}, "found 'cost_unit' too"),
    "costs that fall": ({"costs": [3, 2, 1]}, "expected costs that never fall"),
    "a width beside widths": ({"model": {"width": 4}}, "expected model.width null beside widths, found 4"),
    "two outputs of one name": ({"outputs": [{"name": "a"}, {"name": "a"}]}, "expected every output once"),
    "an output's name with a line feed": ({"outputs": [{"name": "a\n"}]}, "expected outputs.0.name to satisfy pattern"),
    "costs as text": ({"costs": ["1", "2", "3"]}, "costs"),
    "a huge cost": ({"costs": [1, 2, 10**400]}, "costs"),
    "no labels and target labels": ({"labelled": False}, "expected the target final"),
}


@pytest.mark.parametrize(("changes", "message"), MANIFESTS.values(), ids=MANIFESTS.keys())
def test_a_wrong_manifest_is_refused_with_its_own_message(
    tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    path = write(tmp_path / "c", everything())
    value = json.loads((path / MANIFEST).read_text())
    value["model"] |= changes.pop("model", {}) if "model" in changes else {}
    (path / MANIFEST).write_text(json.dumps(value | changes))
    with pytest.raises(InputError) as caught:
        read_manifest(path)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("file", "name", "message"),
    [
        ("shard-00001.safetensors", "groups", "expected a tensor 'groups'"),
        ("shard-00001.safetensors", "output.lte", "expected a tensor 'output.lte'"),
        ("shard-00001.features.safetensors", "features.02", "expected a tensor 'features.02'"),
        ("heads.safetensors", "weight.03", "expected a tensor 'weight.03'"),
    ],
)
def test_a_tensor_that_the_manifest_promises_and_no_file_holds(
    tmp_path: Path, file: str, name: str, message: str
) -> None:
    path = write(tmp_path / "c", everything())
    save_file({key: part for key, part in load_file(path / file).items() if key != name}, path / file)
    assert any(message in problem for problem in verify(path))


def test_an_output_that_is_not_finite_is_found(tmp_path: Path) -> None:
    path = write(tmp_path / "c", everything())
    tensors = load_file(path / "shard-00001.safetensors")
    tensors["output.policy"][2, 3, 1] = float("inf")
    save_file(tensors, path / "shard-00001.safetensors")
    assert any("output.policy: expected finite numbers, found inf at layer 3, row 11" in line for line in verify(path))
