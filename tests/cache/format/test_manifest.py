import json
import sys
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from exitbench.cache.format.manifest import MANIFEST
from exitbench.cache.format.manifest_file import read_manifest, schema
from exitbench.errors import InputError


def edit(cache: Path, **changes: Any) -> None:
    """Change the manifest at dotted keys."""
    value = json.loads((cache / MANIFEST).read_text())
    for dotted, item in changes.items():
        *parents, last = dotted.split("__")
        target = value
        for parent in parents:
            target = target[int(parent) if parent.isdigit() else parent]
        target[last] = item
    (cache / MANIFEST).write_text(json.dumps(value))


def test_the_schema_is_a_valid_schema_and_accepts_the_example_of_the_design(cache: Path) -> None:
    jsonschema.Draft202012Validator.check_schema(schema(1))
    sha = "0" * 64
    example = {
        "schema": 1,
        "complete": True,
        "task": {"name": "sst2", "classes": ["negative", "positive"], "metric": "accuracy"},
        "split": "dev",
        "model": {
            "name": "mpnet-base",
            "revision": None,
            "layers": 12,
            "width": 768,
            "pooling": "mean",
            "pooler": "per-layer",
        },
        "rows": 872,
        "feature_dtype": "float16",
        "heads": {"file": "heads.safetensors", "sha256": sha},
        "shards": [
            {
                "rows": 872,
                "file": "shard-00000.safetensors",
                "sha256": sha,
                "features": {"file": "shard-00000.features.safetensors", "sha256": sha},
            }
        ],
        "provenance": {
            "started": "...",
            "command": "...",
            "versions": {},
            "device": "cpu",
            "dtype": "float32",
            "seed": 0,
            "note": "",
        },
    }
    jsonschema.validate(example, schema(1))
    jsonschema.validate(json.loads((cache / MANIFEST).read_text()), schema(1))


def test_a_manifest_survives_reading_and_writing_byte_for_byte(cache: Path) -> None:
    assert read_manifest(cache).to_json() == (cache / MANIFEST).read_text()


def test_facts_a_collector_adds_to_the_provenance_are_kept(cache: Path) -> None:
    edit(cache, provenance__gpu="A100")
    assert json.loads(read_manifest(cache).to_json())["provenance"]["gpu"] == "A100"


WRONG = {
    "an unknown schema version": ({"schema": 3}, "expected schema version 1 or 2, found 3"),
    "true for a version": ({"schema": True}, "expected schema version 1 or 2, found True"),
    "one class": ({"task__classes": ["only"]}, "expected at least 2 classes, found 1"),
    "one layer": ({"model__layers": 1}, "expected at least 2 layers, found 1"),
    "layers as text": ({"model__layers": "12"}, "model.layers"),
    "an unknown key": ({"rowz": 3}, "found 'rowz' too"),
    "an unknown metric": ({"task__metric": "bleu"}, "task.metric"),
    "rows that do not add up": ({"rows": 71}, "rows to add up to 71, found 70"),
    "a path": ({"shards__0__file": "../shard-00000.safetensors"}, "plain file name ending in .safetensors"),
    "an absolute path": ({"heads__file": "/etc/passwd"}, "heads"),
    "a file listed twice": ({"shards__1__file": "shard-00000.safetensors"}, "shard-00000.safetensors twice"),
    "a missing feature file": ({"shards__1__features": None}, "expected 3 feature files"),
    "a feature dtype without features": ({"feature_dtype": None}, "expected 0 feature files"),
    "two classes of one name": ({"task__classes": ["a", "a", "b"]}, "task.classes"),
    "a hash of the wrong length": ({"shards__0__sha256": "abc"}, "shards.0.sha256"),
    "no shards": ({"shards": [], "rows": 0}, "expected at least one row, found none"),
}


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG.keys())
def test_a_wrong_manifest_is_refused_with_its_own_message(cache: Path, changes: dict[str, Any], message: str) -> None:
    edit(cache, **changes)
    with pytest.raises(InputError) as caught:
        read_manifest(cache)
    assert message in str(caught.value)
    assert MANIFEST in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "text",
    [b"", b"{", b"\xff\xfe", b"NaN", b'{"schema": NaN}', b"[" * 100_000, b'{"schema": "\\ud800"}', b"1" * 5000],
    ids=["empty", "cut off", "not utf-8", "NaN", "NaN inside", "deeply nested", "half a surrogate", "a huge number"],
)
def test_a_manifest_that_is_not_json_is_refused(cache: Path, text: bytes) -> None:
    (cache / MANIFEST).write_bytes(text)
    with pytest.raises(InputError, match="expected"):
        read_manifest(cache)


def test_whatever_the_depth_of_a_nested_value_it_is_refused_in_a_line(cache: Path) -> None:
    """At some depths the text can still be parsed and no longer checked, since a check needs more of the stack."""
    text, messages = json.dumps(json.loads((cache / MANIFEST).read_text()) | {"rows": "nested"}), set()
    for depth in range(sys.getrecursionlimit() - 200, sys.getrecursionlimit() + 1):
        (cache / MANIFEST).write_text(text.replace('"nested"', "[" * depth + "]" * depth))
        with pytest.raises(InputError) as caught:
            read_manifest(cache)
        messages.add(str(caught.value).partition(": ")[2][:30])
    assert "expected a flat JSON object, f" in messages and len(messages) > 1


def test_a_manifest_that_is_a_list_is_refused(cache: Path) -> None:
    (cache / MANIFEST).write_text("[]")
    with pytest.raises(InputError, match="expected a JSON object, found list"):
        read_manifest(cache)


def test_a_missing_key_is_named(cache: Path) -> None:
    value = json.loads((cache / MANIFEST).read_text())
    del value["model"]["width"]
    (cache / MANIFEST).write_text(json.dumps(value))
    with pytest.raises(InputError, match="expected a key 'width' in model, found none"):
        read_manifest(cache)


def test_a_manifest_of_a_hundred_megabytes_is_refused_unread(cache: Path) -> None:
    with (cache / MANIFEST).open("r+b") as stream:
        stream.truncate(100 * 2**20)
    with pytest.raises(InputError, match="at most 16,777,216 bytes, found 104,857,600"):
        read_manifest(cache)


def test_deep_nesting_in_the_provenance_is_no_traceback(cache: Path) -> None:
    text = (cache / MANIFEST).read_text()
    deep = "[" * 900 + "]" * 900
    (cache / MANIFEST).write_text(text.replace('"note": "synthetic"', f'"note": "", "more": {deep}'))
    try:
        read_manifest(cache)
    except InputError as error:
        assert "\n" not in str(error)


@pytest.mark.parametrize("kind", ["nothing", "file", "empty"])
def test_what_is_not_a_cache_is_said(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    if kind == "file":
        path.write_text("")
    elif kind == "empty":
        path.mkdir()
    expected = {"nothing": "found nothing", "file": "found a file", "empty": "expected a file manifest.json"}
    with pytest.raises(InputError, match=expected[kind]):
        read_manifest(path)
