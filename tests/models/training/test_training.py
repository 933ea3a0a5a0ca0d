"""Training: the same weights as a plain loop, alone and as two processes; losses, scores, devices, the verb."""

import json
import os
import re
import signal
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, f1_score

from exitbench.cache import Task
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.models.data.batches import TokenBatch, Tokens
from exitbench.models.devices import autocast_dtype, runs_on_cpu
from exitbench.models.network.multi_exit import MultiExitConfig, MultiExitModel
from exitbench.models.training.checkpoints import checkpoints_of, latest_checkpoint
from exitbench.models.training.layer_scores import confusion_counts, layer_scores
from exitbench.models.training.learning_rates import TrainingOptions
from exitbench.models.training.opened_weights import open_for_training
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.progress import ProgressBar
from tests.support.tiny_models import two_processes, write_reviews
from tests.support.trainings import (
    OPTIONS,
    assert_close_weights,
    new_model,
    new_training,
    plain_loop,
    split_tokens,
    weights,
)

pytestmark = pytest.mark.long


def test_training_gives_the_weights_of_a_plain_loop(encoder: Path, reviews: Path, uninterrupted: Path) -> None:
    expected = plain_loop(encoder, reviews, OPTIONS, ranks=1).exit_state()
    assert_close_weights(weights(uninterrupted), expected)


def test_the_record_beside_the_model_says_how_it_was_made(uninterrupted: Path) -> None:
    record = json.loads((uninterrupted / "training.json").read_text())
    assert record["steps"] == 2 * 8
    assert record["settings"]["learning_rate"] == OPTIONS.learning_rate
    assert record["settings"]["train_rows"] == 120
    assert [entry["epoch"] for entry in record["history"]] == [1, 2]
    for entry in record["history"]:
        assert len(entry["scores"]) == 3
        assert all(0 <= score <= 100 for score in entry["scores"])
        assert entry["loss"] > 0
        assert entry["seconds"] > 0
    assert not checkpoints_of(uninterrupted).exists()


def test_the_last_scores_are_those_of_the_saved_model(reviews: Path, uninterrupted: Path) -> None:
    model = MultiExitModel.from_pretrained(uninterrupted)
    dev = split_tokens(model, reviews, "dev")
    batch = dev.batch(range(len(dev)))
    with torch.no_grad():
        answers = model(batch).logits.argmax(2)
    expected = [100 * accuracy_score(batch.labels, row) for row in answers]
    record = json.loads((uninterrupted / "training.json").read_text())
    assert record["history"][-1]["scores"] == pytest.approx(expected)


def test_a_finished_model_is_not_overwritten(encoder: Path, reviews: Path, uninterrupted: Path) -> None:
    with pytest.raises(InputError, match="expected a new folder for the model"):
        new_training(encoder, reviews, uninterrupted).run()


def test_a_loss_that_is_not_finite_stops_the_training(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    model = new_model(encoder)
    with torch.no_grad():
        model.head(1).bias.fill_(float("nan"))
    with pytest.raises(InputError, match="expected a finite loss, found nan near step 8"):
        new_training(encoder, reviews, tmp_path / "model", model=model).run()


def test_a_tiny_model_learns_the_task(encoder: Path, tmp_path: Path) -> None:
    data = write_reviews(tmp_path / "SST-2", {"train": 600, "dev": 100})
    options = TrainingOptions(epochs=5, batch_size=32, learning_rate=3e-3, head_learning_rate=1e-2)
    history = new_training(encoder, data, tmp_path / "model", options).run().history
    assert history[-1]["scores"][-1] > 90
    assert history[-1]["loss"] < history[0]["loss"]


def test_frozen_embeddings_stay_as_they_were(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, batch_size=60, learning_rate=1e-2, freeze_embeddings=True)
    before = new_model(encoder).exit_state()
    new_training(encoder, reviews, tmp_path / "model", options).run()
    changed = {name for name, value in weights(tmp_path / "model").items() if not torch.equal(value, before[name])}
    assert not any(".embeddings." in name for name in changed)
    assert any(".encoder." in name for name in changed)


# -- stages ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("pooler", "final", "internal"),
    [
        ("per-layer", {"heads.2", "poolers.2", "backbone"}, {"heads.0", "heads.1", "poolers.0", "poolers.1"}),
        ("shared", {"heads.2", "poolers.0", "backbone"}, {"heads.0", "heads.1"}),
        ("none", {"heads.2", "backbone"}, {"heads.0", "heads.1"}),
    ],
)
def test_the_second_stage_leaves_everything_the_final_exit_uses(
    encoder: Path, pooler: str, final: set[str], internal: set[str]
) -> None:
    model = new_model(encoder, pooler=pooler)
    for stage, expected in zip(load_recipes().make("two-stage").stages(3), (final, internal), strict=True):
        trained = open_for_training(model, stage, freeze_embeddings=False)
        parts = {"backbone" if name.startswith("backbone") else name.rpartition(".")[0] for name in trained}
        assert parts == expected


def test_two_stages_change_each_exit_in_its_own_stage(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, batch_size=40)
    result = new_training(encoder, reviews, tmp_path / "model", options, recipe="two-stage").run()
    assert [entry["stage"] for entry in result.history] == ["final exit", "internal exits"]
    first, second = (entry["scores"] for entry in result.history)
    assert first[-1] == second[-1]
    before, after = new_model(encoder).exit_state(), weights(tmp_path / "model")
    assert all(not torch.equal(before[f"exits.heads.{m}.weight"], after[f"exits.heads.{m}.weight"]) for m in range(3))


# -- scores --------------------------------------------------------------------------------------


def test_layer_scores_are_those_of_sklearn() -> None:
    generator = np.random.default_rng(0)
    labels, answers = generator.integers(0, 2, 50), generator.integers(0, 2, (3, 50))
    counts = torch.zeros(3, 2, 2, dtype=torch.int64)
    for m in range(3):
        for label, answer in zip(labels, answers[m], strict=True):
            counts[m, label, answer] += 1
    accuracy = layer_scores(counts, Task("x", ("a", "b")))
    f1 = layer_scores(counts, Task("x", ("a", "b"), "f1"))
    assert accuracy == pytest.approx([100 * accuracy_score(labels, row) for row in answers])
    assert f1 == pytest.approx([100 * f1_score(labels, row) for row in answers])


def test_the_counts_of_two_processes_add_up(reviews: Path, uninterrupted: Path) -> None:
    model = MultiExitModel.from_pretrained(uninterrupted)
    dev = split_tokens(model, reviews, "dev")
    whole = confusion_counts(model, dev, 8)
    assert torch.equal(whole, confusion_counts(model, dev, 8, 0, 2) + confusion_counts(model, dev, 8, 1, 2))
    assert whole.sum((1, 2)).tolist() == [53, 53, 53]
    assert not model.training


# -- the bar -------------------------------------------------------------------------------------


def test_the_bar_shows_count_loss_and_time_left_in_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar("training", 10, done=4) as bar:
        bar.advance(note="loss 0.1234")
        bar.advance()
        bar.print_line("epoch 1/1: [a line]")
    printed = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "epoch 1/1: [a line]" in printed
    assert re.search(r"training.* 6/10 .*loss 0\.1234.*:", printed)


def test_without_a_terminal_only_lines_that_stay_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for visible in (True, False):
        with ProgressBar("training", 10, visible=visible) as bar:
            bar.advance(note="loss 0.1234")
            bar.print_line("a line")
    assert capsys.readouterr().err == "a line\n"


# -- devices -------------------------------------------------------------------------------------


def test_devices_and_precisions_that_are_not_here_are_refused() -> None:
    assert runs_on_cpu("cpu")
    assert runs_on_cpu("cpu:0")
    with pytest.raises(InputError, match="expected --device auto, cpu, cuda, cuda:N or mps, found 'gpu'"):
        runs_on_cpu("gpu")
    cpu = torch.device("cpu")
    assert autocast_dtype("auto", cpu) is None
    assert autocast_dtype("float32", torch.device("cuda")) is None
    assert autocast_dtype("bfloat16", torch.device("cuda")) is torch.bfloat16
    assert autocast_dtype("float16", torch.device("cuda")) is torch.float16
    assert autocast_dtype("bfloat16", cpu) is torch.bfloat16
    with pytest.raises(InputError, match="expected --precision float32, bfloat16 or auto on cpu, found 'float16'"):
        autocast_dtype("float16", cpu)
    with pytest.raises(InputError, match="expected --precision float32 or auto on mps, found 'bfloat16'"):
        autocast_dtype("bfloat16", torch.device("mps"))
    with pytest.raises(InputError, match=r"found 'bfloat'. Did you mean bfloat16"):
        autocast_dtype("bfloat", cpu)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has the device")
def test_training_in_bfloat16_on_a_cpu_takes_rounded_steps_towards_the_same_weights(
    encoder: Path, reviews: Path, tmp_path: Path, uninterrupted: Path
) -> None:
    options = replace(OPTIONS, precision="bfloat16")
    assert new_training(encoder, reviews, tmp_path / "half", options).run().finished
    before, whole, half = new_model(encoder).exit_state(), weights(uninterrupted), weights(tmp_path / "half")
    moved = torch.cat([(whole[name] - before[name]).flatten() for name in whole])
    apart = torch.cat([(half[name] - whole[name]).flatten() for name in whole])
    assert all(value.dtype == torch.float32 for value in half.values())
    assert 1e-4 < float(apart.norm() / moved.norm()) < 0.5, "rounded to eight bits, and the same training"


def test_a_device_this_machine_lacks_is_refused() -> None:
    with pytest.raises(InputError, match="expected a cuda device on this machine for --device cuda:1, found none"):
        runs_on_cpu("cuda:1")


# -- the verb ------------------------------------------------------------------------------------


def verb(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    assert isinstance(ended.value.code, int)
    return ended.value.code


def test_the_verb_trains_and_says_what_it_did(
    encoder: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--model", encoder, "--task", "sst2", "--data-dir", reviews, "--out", tmp_path / "model"]
    more = ["--epochs", "1", "--max-train-rows", "40", "--max-dev-rows", "20", "--max-length", "6"]
    assert verb(*words, *more) == 0
    printed = capsys.readouterr()
    assert printed.out == f"{tmp_path / 'model'}: complete\n"
    assert "of 40 texts of train are longer than 6 tokens and were cut" in printed.err
    assert "of 20 texts of dev are longer than 6 tokens and were cut" in printed.err
    assert "epoch 1/1: loss" in printed.err
    config = MultiExitModel.from_pretrained(tmp_path / "model").config
    assert config == MultiExitConfig(("negative", "positive"), "first", "shared", "sst2", 6)
    assert verb(*words, *more, "--resume") == 0
    assert "already complete" in capsys.readouterr().err
    assert verb(*words, *more) == 2
    assert "expected a new folder" in capsys.readouterr().err


def test_the_verb_trains_on_own_columns(encoder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for split in ("train", "dev"):
        rows = [{"q": f"a {word} film", "kind": word} for word in ("good", "bad", "dull")] * 4
        (tmp_path / f"{split}.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    words = ["train", "--model", encoder, "--task", "kinds", "--data-dir", tmp_path, "--out", tmp_path / "model"]
    assert verb(*words, "--text", "q", "--label", "kind", "--epochs", "1", "--recipe", "depth-weighted") == 0
    assert MultiExitModel.from_pretrained(tmp_path / "model").config.classes == ("bad", "dull", "good")
    assert "dev accuracy by layer" in capsys.readouterr().err


def test_an_interrupted_verb_keeps_its_checkpoint_and_says_how_to_go_on(
    encoder: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    batch = Tokens.batch

    def interrupted(tokens: Tokens, rows: Any) -> TokenBatch:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(tokens, rows)

    monkeypatch.setattr(Tokens, "batch", interrupted)
    words = ["train", "--model", encoder, "--task", "sst2", "--data-dir", reviews, "--out", tmp_path / "model"]
    assert verb(*words) == 130
    assert "stopped after step 3 of 12; go on with --resume" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
    assert latest_checkpoint(tmp_path / "model") is not None


@pytest.mark.process
def test_two_processes_give_the_weights_of_a_plain_loop(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    out = tmp_path / "model"
    verb_words = ["-m", "exitbench", "train", "--model", encoder, "--task", "sst2", "--data-dir", reviews, "--out", out]
    options = TrainingOptions(epochs=1, batch_size=16, learning_rate=1e-3, head_learning_rate=5e-3)
    rates = ["--learning-rate", "1e-3", "--head-learning-rate", "5e-3", "--pooling", "mean", "--pooler", "per-layer"]
    done = two_processes(*verb_words, *rates, "--epochs", "1", "--batch-size", "16")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("complete") == 1
    assert done.stderr.count("epoch 1/1") == 1
    expected = plain_loop(encoder, reviews, options, ranks=2).exit_state()
    assert_close_weights(weights(out), expected)
