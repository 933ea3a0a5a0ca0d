"""Push and pull against a stand-in of the hub: the same bytes back, resumed, verified, and nothing half done."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub.constants
import pytest
import yaml
from huggingface_hub import DatasetCard
from markdown_it import MarkdownIt

from exitbench.cache import Cache, synthetic_cache, verify
from exitbench.cache.card import cache_card
from exitbench.errors import InputError
from exitbench.hub.dataset_card import dataset_card, without_markup
from exitbench.hub.hub_address import HubAddress, parse_address
from exitbench.hub.pull_cache import pull_cache
from exitbench.hub.push_cache import push_cache
from tests.support.for_each import for_each
from tests.support.hub_server import TOKEN, Hub, running_hub

pytestmark = pytest.mark.long

ADDRESS = HubAddress("me/my-cache")


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hub]:
    with running_hub() as served:
        monkeypatch.setenv("HF_ENDPOINT", served.address)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_DISABLE_XET", True)
        monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "hub-cache"))
        monkeypatch.setenv("HF_TOKEN", TOKEN)
        yield served


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("caches") / "my-cache"
    return synthetic_cache(folder, rows=90, layers=3, width=8, shard_rows=30)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_a_pulled_cache_has_the_bytes_that_were_pushed(hub: Hub, cache: Path, tmp_path: Path) -> None:
    commit = push_cache(cache, ADDRESS)
    stored = hub.repositories["me/my-cache"].commits[-1]
    assert set(stored) == {"README.md", *contents(cache)}
    assert pull_cache(ADDRESS, tmp_path / "pulled") == commit
    assert contents(tmp_path / "pulled") == contents(cache)
    assert [path.name for path in tmp_path.iterdir()] == ["pulled"]


def test_a_stopped_push_uploads_the_rest_only_and_shows_nothing_before_the_end(hub: Hub, cache: Path) -> None:
    hub.failing_commits = 1
    with pytest.raises(InputError, match=r"hf://datasets/me/my-cache: .*403"):
        push_cache(cache, ADDRESS)
    assert hub.repositories["me/my-cache"].commits == [{}]
    first = list(hub.uploads)
    assert len(first) == len(list(cache.glob("*.safetensors")))
    push_cache(cache, ADDRESS)
    assert hub.uploads == first
    assert "manifest.json" in hub.repositories["me/my-cache"].commits[-1]


def test_a_stopped_pull_goes_on_where_it_was(hub: Hub, cache: Path, tmp_path: Path) -> None:
    push_cache(cache, ADDRESS)
    last = Cache(cache).manifest.files[-1].file
    hub.refused.add(last)
    with pytest.raises(InputError, match=r"hf://datasets/me/my-cache: .*403"):
        pull_cache(ADDRESS, tmp_path / "pulled")
    assert not (tmp_path / "pulled").exists()
    hub.refused.clear()
    hub.asked.clear()
    pull_cache(ADDRESS, tmp_path / "pulled")
    assert contents(tmp_path / "pulled") == contents(cache)
    fetched = [path for method, path, _ in hub.asked if method == "GET" and "/resolve/" in path]
    assert [path.rpartition("/")[2] for path in fetched] == [last]
    assert [path.name for path in tmp_path.iterdir()] == ["pulled"]


def test_a_pull_that_is_cut_off_says_one_line_and_goes_on_later(
    hub: Hub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(logging.getLogger("huggingface_hub"), "propagate", True)
    waits = SimpleNamespace(sleep=lambda _: None)  # between its own attempts
    monkeypatch.setattr("huggingface_hub.file_download.time", waits)
    push_cache(cache, ADDRESS)
    hub.cut.add("shard-00002.safetensors")
    with pytest.raises(InputError, match=r"hf://datasets/me/my-cache: peer closed connection .*received 10 bytes"):
        pull_cache(ADDRESS, tmp_path / "pulled")
    assert not [record for record in caplog.records if record.name.startswith("huggingface_hub")]
    assert not (tmp_path / "pulled").exists()
    hub.cut.clear()
    pull_cache(ADDRESS, tmp_path / "pulled")
    assert contents(tmp_path / "pulled") == contents(cache)


def test_what_is_not_what_the_manifest_says_is_not_kept(hub: Hub, cache: Path, tmp_path: Path) -> None:
    push_cache(cache, ADDRESS)
    files = hub.repositories["me/my-cache"].commits[-1]
    shard = next(name for name in files if name.startswith("shard"))
    files[shard] = files[shard][:-3] + bytes([files[shard][-3] ^ 1]) + files[shard][-2:]
    with pytest.raises(InputError, match=rf"not a good cache, nothing is kept of it: {shard}: changed"):
        pull_cache(ADDRESS, tmp_path / "pulled")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["../outside.safetensors", "/etc/passwd", "shard.py"])
def test_a_manifest_that_names_other_files_gets_none_of_them(hub: Hub, cache: Path, tmp_path: Path, name: str) -> None:
    push_cache(cache, ADDRESS)
    files = hub.repositories["me/my-cache"].commits[-1]
    manifest = json.loads(files["manifest.json"])
    manifest["shards"][0]["file"] = name
    files["manifest.json"] = json.dumps(manifest).encode()
    files[name] = b"import os"
    refused = r"my-cache: not a good cache, nothing is kept of it: manifest\.json: expected at shards\.0\.file a plain"
    with pytest.raises(InputError, match=refused):
        pull_cache(ADDRESS, tmp_path / "a" / "pulled")
    assert not list((tmp_path / "a").iterdir())
    assert not list(tmp_path.rglob("outside*"))
    assert not list(tmp_path.rglob("*.py"))


def test_only_what_the_manifest_lists_is_downloaded(hub: Hub, cache: Path, tmp_path: Path) -> None:
    push_cache(cache, ADDRESS)
    hub.repositories["me/my-cache"].commits[-1]["array.py"] = b"print('mine')"
    pull_cache(ADDRESS, tmp_path / "pulled")
    assert contents(tmp_path / "pulled") == contents(cache)


def test_another_cache_replaces_the_one_that_was_there(hub: Hub, cache: Path, tmp_path: Path) -> None:
    first = push_cache(cache, ADDRESS)
    other = synthetic_cache(tmp_path / "other", rows=40, layers=3, width=8, seed=5)
    push_cache(other, ADDRESS)
    pull_cache(ADDRESS, tmp_path / "now")
    assert contents(tmp_path / "now") == contents(other)
    stored = hub.repositories["me/my-cache"].commits[-1]
    assert {name for name in stored if name.endswith(".safetensors")} == {path.name for path in other.glob("*.saf*")}
    pull_cache(replace(ADDRESS, revision=first), tmp_path / "then")
    assert contents(tmp_path / "then") == contents(cache)


def test_a_defective_or_unfinished_cache_is_not_pushed(hub: Hub, cache: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    for name, content in contents(cache).items():
        (damaged / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]) if name.startswith("shard") else content)
    with pytest.raises(InputError, match=r"damaged: not pushed: .*changed: expected sha256"):
        push_cache(damaged, ADDRESS)
    assert hub.asked == []


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (HubAddress("me/nothing"), "hf://datasets/me/nothing: the hub has no such dataset, or not for you"),
        (HubAddress("me/my-cache", "v9"), "hf://datasets/me/my-cache@v9: the hub has no revision 'v9' of it"),
    ],
)
def test_what_is_not_there_is_one_line(
    hub: Hub, cache: Path, tmp_path: Path, address: HubAddress, message: str
) -> None:
    push_cache(cache, ADDRESS)
    with pytest.raises(InputError, match=re.escape(message)):
        pull_cache(address, tmp_path / "pulled")
    assert list(tmp_path.iterdir()) == []


def test_without_a_token_or_a_network_nothing_is_written(
    hub: Hub, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    with pytest.raises(InputError, match=r"hf auth login"):
        push_cache(cache, ADDRESS)
    assert hub.repositories == {}
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(InputError, match=r"hf://datasets/me/my-cache: .*offline"):
        pull_cache(ADDRESS, tmp_path / "pulled")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_other_files_is_refused(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("years")
    with pytest.raises(InputError, match="expected nothing or an empty directory, found other files"):
        pull_cache(ADDRESS, tmp_path / "mine")
    assert hub.asked == []


def test_addresses() -> None:
    assert parse_address("hf://datasets/me/my-cache") == ADDRESS
    assert parse_address("hf://datasets/me/my-cache@v1.2") == HubAddress("me/my-cache", "v1.2")
    assert str(HubAddress("a/b", "v1")) == "hf://datasets/a/b@v1"
    for wrong in (
        "me/my-cache",
        "hf://models/me/x",
        "hf://datasets/x",
        "hf://datasets/me/../x",
        "hf://datasets/me/x y",
    ):
        with pytest.raises(InputError, match="expected an address such as hf://datasets/ORG/NAME, found"):
            parse_address(wrong)


def test_the_card_says_what_the_cache_holds(cache: Path) -> None:
    card = cache_card(Cache(cache))
    _, header, body = dataset_card(card, str(ADDRESS), "cc-by-4.0").split("---\n", 2)
    values = yaml.safe_load(header)
    assert values["license"] == "cc-by-4.0"
    assert values["size_categories"] == ["n<1K"]
    assert values["viewer"] is False
    accuracies = ", ".join(f"{value:g}" for value in card["accuracy_per_layer"])
    assert f"in percent: {accuracies}." in body
    assert "| rows | 90, role test |" in body


ODD = [
    "x: y",
    "no",
    "1e3",
    "---",
    "é — 漢",
    "a\n---\nlicense: mit",
    "\"'",
    "{}",
    "\u2028\x85\x00\x1b[31m",
    "&a *b",
    "\\ud83d",
    "😀",
]


@for_each(name=ODD)
def test_the_hub_reads_every_name_and_licence_as_it_is(name: str, cache: Path) -> None:
    card = cache_card(Cache(cache)) | {"model": name, "task": name}
    header = DatasetCard(dataset_card(card, str(ADDRESS), name)).data.to_dict()
    assert header["license"] == name
    assert header["pretty_name"].startswith(f"{name} on {name} (")
    assert header["pretty_name"].encode()
    assert header.keys() == {"pretty_name", "tags", "size_categories", "viewer", "license"}


def test_a_hostile_name_is_neither_markup_nor_a_key_of_the_header(tmp_path: Path, cache: Path) -> None:
    hostile = "x\nlicense: mit\n---\n<script>alert(1)</script> | [a](http://evil) *b* `c` \u202e"
    card = cache_card(Cache(cache)) | {"model": hostile, "classes": {hostile: 1}, "name": hostile}
    _, header, body = dataset_card(card, str(ADDRESS)).split("---\n", 2)
    assert "license" not in yaml.safe_load(header)
    rendered = MarkdownIt("commonmark", {"html": True}).enable("table").render(body)
    assert "<script" not in rendered
    assert "evil" not in "".join(re.findall(r'(?:href|src)="([^"]*)"', rendered))
    assert "<em>b" not in rendered
    assert rendered.count("<tr>") == 12
    assert without_markup("a_b") == "a&#95;b"
    assert verify(cache) == []
