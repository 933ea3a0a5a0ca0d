"""Collecting: the cache holds what the network says, in order, however often and by however many it was written."""

import contextlib
import dataclasses
import importlib.util
import io
import json
import os
import re
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from exitbench.cache import TASKS, Cache, head_algebra, verify
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.models import MultiExitModel, Tokens, load_examples, tokenize
from exitbench.models.collecting import collect, data_sha256
from exitbench.models.data.batches import TokenBatch
from tests.support.tiny_models import tiny_model, two_processes

pytestmark = pytest.mark.long

SST2 = TASKS["sst2"]
DOCUMENT = Path(__file__).parents[2] / "docs" / "collecting.md"


def dev_tokens(model: MultiExitModel, reviews: Path) -> Tokens:
    return tokenize(load_examples("sst2", "dev", reviews), model.tokenizer, 128)


def collected(exits: Path, reviews: Path, out: Path, **options: Any) -> Cache:
    model = MultiExitModel.from_pretrained(exits)
    collect(model, dev_tokens(model, reviews), SST2, "dev", out, **{"shard_rows": 20, "batch_size": 7, **options})
    return Cache(out)


def files(path: Path, *, manifest: bool = False) -> dict[str, bytes]:
    return {p.name: p.read_bytes() for p in path.iterdir() if manifest or p.suffix == ".safetensors"}


@torch.no_grad()
@pytest.mark.parametrize("features", ["float32", "float16", "bfloat16", "none"])
def test_the_cache_holds_what_the_network_says_one_row_at_a_time(
    exits: Path, reviews: Path, tmp_path: Path, features: str
) -> None:
    cache = collected(exits, reviews, tmp_path / "cache", features=features)
    model = MultiExitModel.from_pretrained(exits)
    tokens = dev_tokens(model, reviews)
    assert tokens.labels is not None
    assert cache.labels.tolist() == tokens.labels.tolist()
    assert cache.ids.tolist() == list(range(53))
    assert (cache.rows, cache.layers, cache.classes, cache.has_features) == (53, 4, 2, features != "none")
    assert cache.has_offset_norms
    rows = [model(tokens.batch([row])) for row in range(53)]
    tolerance = {"float32": 1e-5, "float16": 1e-3, "bfloat16": 1e-2, "none": 0.0}[features]
    for m in range(1, 5):
        inputs = torch.cat([feature[m - 1] for feature, _, _ in rows])
        logits = torch.cat([logit[m - 1] for _, logit, _ in rows])
        torch.testing.assert_close(cache.logits(m), logits, atol=1e-5, rtol=0)
        if features != "none":
            torch.testing.assert_close(cache.features(m).float(), inputs, atol=tolerance, rtol=0)
        offset = head_algebra(model.head(m).weight, model.head(m).bias).offset
        norms = (inputs.double() + offset).norm(dim=1).float()
        torch.testing.assert_close(cache.offset_norms(m), norms, atol=1e-5, rtol=0)


def test_the_hash_of_the_data_tells_every_change_of_it() -> None:
    same = {"types": [[0, 0], [0]], "labels": torch.tensor([0, 1]), "pad_id": 1, "cut": 0}
    splits = [
        Tokens(**{"ids": [[5, 6], [7]], **same, **change})
        for change in (
            {},
            {"ids": [[5, 6], [8]]},
            {"ids": [[5], [6, 7]], "types": [[0], [0, 0]]},
            {"ids": [[7], [5, 6]], "types": [[0], [0, 0]]},
            {"types": [[0, 1], [0]]},
            {"types": None},
            {"labels": torch.tensor([1, 0])},
        )
    ]
    assert len({data_sha256(split) for split in splits}) == len(splits)
    assert data_sha256(splits[0]) == data_sha256(Tokens(**{"ids": ((5, 6), (7,)), **same}))


def test_a_stopped_collection_does_not_go_on_with_other_data(exits: Path, reviews: Path, tmp_path: Path) -> None:
    model = MultiExitModel.from_pretrained(exits)
    tokens = dev_tokens(model, reviews)
    assert tokens.labels is not None

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr("exitbench.models.collecting.collect_rows", stop)
        collect(model, tokens, SST2, "dev", tmp_path / "cache")
    other = dataclasses.replace(tokens, labels=1 - tokens.labels)
    with pytest.raises(InputError, match="cannot resume: data sha256 was"):
        collect(model, other, SST2, "dev", tmp_path / "cache")
    collect(model, tokens, SST2, "dev", tmp_path / "cache")
    assert Cache(tmp_path / "cache").labels.tolist() == tokens.labels.tolist()


def test_the_manifest_says_where_the_cache_comes_from(exits: Path, reviews: Path, tmp_path: Path) -> None:
    cache = collected(exits, reviews, tmp_path / "cache", name="tiny", provenance={"command": "c", "note": "n"})
    manifest = cache.manifest
    assert manifest.task == SST2
    assert (manifest.split, manifest.rows, len(manifest.shards)) == ("dev", 53, 3)
    model = manifest.model
    assert (model.name, model.layers, model.width, model.pooling, model.pooler) == ("tiny", 4, 16, "mean", "per-layer")
    assert model.revision == MultiExitModel.from_pretrained(exits).fingerprint()
    source = manifest.provenance
    assert (source.command, source.note, source.device, source.dtype) == ("c", "n", "cpu", "float32")
    assert {"torch", "transformers"} <= source.versions.keys()
    metadata = dict(manifest.extra_provenance)
    assert re.fullmatch("[0-9a-f]{64}", str(metadata.pop("data_sha256")))
    assert metadata == {"batch_size": 7, "max_length": 128, "texts_cut": 0}
    assert verify(tmp_path / "cache") == []


def test_the_manifest_says_how_the_network_was_trained(exits: Path, reviews: Path, tmp_path: Path) -> None:
    trainings = {}
    for name, text in {
        "known": json.dumps({"settings": {"recipe": "ponder[beta=1]", "seed": 4, "epochs": 2, "train_rows": 80}}),
        "counts": json.dumps({"settings": {"seed": True, "epochs": -1, "train_rows": 1 << 70}}),
        "none": json.dumps({"settings": {}}),
        "number": json.dumps({"settings": {"recipe": 7}}),
        "list": "[]",
        "torn": "{",
        "escape": json.dumps({"settings": {"recipe": "\x1b[31m"}}),
        "endless": json.dumps({"settings": {"recipe": "x" * 10_000}}),
    }.items():
        model = shutil.copytree(exits, tmp_path / f"model-{name}")
        (model / "training.json").write_text(text)
        trainings[name] = MultiExitModel.from_pretrained(model).made_by
    known = {"recipe": "ponder[beta=1]", "seed": 4, "epochs": 2, "training_rows": 80}
    assert trainings.pop("known") == known
    assert all(facts == {} for facts in trainings.values())
    trained = collected(tmp_path / "model-known", reviews, tmp_path / "trained", features="none")
    other = collected(tmp_path / "model-torn", reviews, tmp_path / "other", features="none")
    facts = dict(trained.manifest.extra_provenance)
    assert {name: facts[name] for name in ("recipe", "epochs", "training_rows")} == {
        name: known[name] for name in ("recipe", "epochs", "training_rows")
    }
    assert (trained.manifest.provenance.seed, other.manifest.provenance.seed) == (4, None)
    assert "recipe" not in dict(other.manifest.extra_provenance)


def interrupt_at(monkeypatch: pytest.MonkeyPatch, call: int) -> None:
    """Send this process a real Ctrl-C while it makes batch number ``call``."""
    calls: list[int] = []
    batch = Tokens.batch

    def interrupted(tokens: Tokens, rows: Any) -> TokenBatch:
        calls.append(1)
        if len(calls) == call:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(tokens, rows)

    monkeypatch.setattr(Tokens, "batch", interrupted)


@pytest.mark.parametrize("call", [1, 5, 8])
def test_a_stopped_collection_goes_on_and_ends_in_the_same_bytes(
    exits: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    collected(exits, reviews, tmp_path / "whole")
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_at(patch, call)
        collected(exits, reviews, tmp_path / "parts")
    with pytest.raises(InputError, match=r"incomplete|unfinished|not complete"):
        Cache(tmp_path / "parts")
    collected(exits, reviews, tmp_path / "parts")
    assert files(tmp_path / "parts") == files(tmp_path / "whole")


def test_another_model_does_not_continue_a_collection(
    exits: Path, reviews: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        interrupt_at(patch, 5)
        collected(exits, reviews, tmp_path / "cache", name="x")
    other = tiny_model(tmp_path / "other", seed=5)
    with pytest.raises(InputError, match="cannot resume"):
        collected(other, reviews, tmp_path / "cache", name="x")


@pytest.mark.process
def test_two_processes_write_the_rows_of_one_in_the_same_order(exits: Path, reviews: Path, tmp_path: Path) -> None:
    words = ["-m", "exitbench", "collect", "--model", exits, "--data-dir", reviews, "--out", tmp_path / "two"]
    done = two_processes(*words, "--shard-rows", "20", "--batch-size", "7")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("complete") == 1
    single, double = collected(exits, reviews, tmp_path / "one"), Cache(tmp_path / "two")
    assert verify(tmp_path / "two") == []
    assert single.ids.tolist() == double.ids.tolist()
    assert single.labels.tolist() == double.labels.tolist()
    assert [shard.rows for shard in double.manifest.shards] == [20, 20, 13]
    for m in range(1, 5):
        torch.testing.assert_close(single.logits(m), double.logits(m), atol=1e-6, rtol=0)
        torch.testing.assert_close(single.features(m), double.features(m), atol=1e-3, rtol=0)


def test_wrong_features_are_refused(exits: Path, reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found 'float61'. Did you mean float16"):
        collected(exits, reviews, tmp_path / "cache", features="float61")


def test_texts_without_labels_are_judged_by_the_last_layer(exits: Path, reviews: Path, tmp_path: Path) -> None:
    model = MultiExitModel.from_pretrained(exits)
    tokens = dev_tokens(model, reviews)
    bare = Tokens(tokens.ids, tokens.types, None, tokens.pad_id, 0)
    collect(model, bare, SST2, "dev", tmp_path / "cache")
    manifest = Cache(tmp_path / "cache").manifest
    assert (manifest.labelled, manifest.target, manifest.rows) == (False, "final", len(tokens))


def test_a_wrong_role_is_refused(exits: Path, reviews: Path, tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"expected --role test, calibration, train, found 'trian'. Did you mean train"
    ):
        collected(exits, reviews, tmp_path / "cache", role="trian")


# -- the verb ------------------------------------------------------------------------------------


def verb(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["collect", *(str(word) for word in words)])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_verb_keeps_ids_groups_and_role_of_ones_own_rows(exits: Path, tmp_path: Path) -> None:
    rows = ["n,t,y,s", "7,a good film,1,3", "5,bad,0,3", "9,dull but good,0,1"]
    (tmp_path / "rest.csv").write_text("\n".join(rows) + "\n", encoding="utf-8")
    words = ["--model", exits, "--data-dir", tmp_path, "--split", "rest", "--text", "t", "--id", "n", "--group", "s"]
    assert verb(*words, "--label", "y", "--role", "calibration", "--out", tmp_path / "cache") == 0
    cache = Cache(tmp_path / "cache")
    assert (cache.ids.tolist(), cache.labels.tolist()) == ([7, 5, 9], [1, 0, 0])
    assert cache.groups is not None
    assert cache.groups.tolist() == [3, 3, 1]
    assert cache.manifest.split_role == "calibration"
    assert verb(*words, "--out", tmp_path / "unlabelled") == 0
    assert not Cache(tmp_path / "unlabelled").manifest.labelled


def test_the_verb_collects_and_says_so(
    exits: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--model", exits, "--data-dir", reviews, "--out", tmp_path / "cache", "--features", "none"]
    assert verb(*words) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'cache'}: complete\n"
    assert Cache(tmp_path / "cache").manifest.model.name == exits.name
    assert verb(*words) == 2
    assert "found a complete one" in capsys.readouterr().err


def test_an_interrupted_verb_says_that_the_same_command_goes_on(
    exits: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupt_at(monkeypatch, 2)
    words = ["--model", exits, "--data-dir", reviews, "--out", tmp_path / "cache", "--batch-size", "20"]
    assert verb(*words) == 130
    assert "stopped; the same command goes on with it" in capsys.readouterr().err
    assert verb(*words) == 0


def test_the_verb_counts_texts_that_were_cut_once(
    exits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test.csv").write_text("t,y\n" + "good " * 200 + ",positive\nbad,negative\n")
    words = ["--model", exits, "--data-dir", tmp_path, "--split", "test", "--task", "mine"]
    assert verb(*words, "--text", "t", "--label", "y", "--out", tmp_path / "cache") == 0
    assert capsys.readouterr().err.count("1 of 2 texts are longer than 128 tokens and were cut") == 1
    manifest = Cache(tmp_path / "cache").manifest
    assert (manifest.task.name, manifest.split) == ("mine", "test")


def test_a_model_for_other_classes_is_refused(exits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "dev.tsv").write_text("index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\n")
    assert verb("--model", exits, "--task", "rte", "--data-dir", tmp_path, "--out", tmp_path / "cache") == 2
    printed = capsys.readouterr().err
    assert (
        "expected a model for the classes entailment, not_entailment of rte, found one for negative, positive"
        in printed
    )
    assert not (tmp_path / "cache").exists()


def test_a_plain_encoder_is_refused(
    encoder: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verb("--model", encoder, "--data-dir", reviews, "--out", tmp_path / "cache") == 2
    assert "expected a model with exits" in capsys.readouterr().err


# -- the document --------------------------------------------------------------------------------

SECTIONS = [part.partition("\n") for part in DOCUMENT.read_text(encoding="utf-8").split("\n## ")]
PROGRAMS = [
    (title, code) for title, _, body in SECTIONS for code in re.findall(r"```python\n(.*?)```", body, re.DOTALL)
]


@pytest.mark.parametrize(("title", "program"), PROGRAMS, ids=[title for title, _ in PROGRAMS])
def test_the_programs_of_the_document_run_and_leave_a_good_cache(
    title: str, program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    # As a file and a module, as a user has it: some versions of transformers open the file that defines a network.
    (tmp_path / "document.py").write_text(program, encoding="utf-8")
    spec = importlib.util.spec_from_file_location("document", tmp_path / "document.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "document", module)
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        spec.loader.exec_module(module)
    (cache,) = [path for path in tmp_path.iterdir() if (path / "manifest.json").exists()]
    assert verify(cache) == []
    assert printed.getvalue().splitlines()[-1] == f"{Cache(cache).rows} rows, {Cache(cache).layers} layers"


def test_the_document_shows_both_ways() -> None:
    assert [title for title, _ in PROGRAMS] == ["A plain PyTorch loop", "A callback for the Hugging Face Trainer"]
