"""Training: the same weights as a plain loop, as an interrupted run, and as two processes; three losses."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import accuracy_score, f1_score
from torch import Tensor, nn

from exitbench.cache import TASKS, Task
from exitbench.cli.app import main
from exitbench.errors import InputError
from exitbench.models.batches import Batch, Tokens, tokenize, training_batches
from exitbench.models.checkpoints import checkpoints_of, latest_checkpoint, step_seed
from exitbench.models.data import load_examples
from exitbench.models.devices import autocast_dtype, runs_on_cpu
from exitbench.models.interrupts import StopRequest
from exitbench.models.losses import exit_loss, open_for_training, stages
from exitbench.models.network import MultiExitConfig, MultiExitModel
from exitbench.models.progress import ProgressBar
from exitbench.models.scores import confusion_counts, layer_scores
from exitbench.models.training import Training, TrainingOptions
from tests.models.tiny import two_processes, write_reviews

SST2 = TASKS["sst2"]
OPTIONS = TrainingOptions(epochs=2, batch_size=16, learning_rate=1e-3, head_learning_rate=5e-3)


def new_model(encoder: Path, pooling: str = "mean", pooler: str = "per-layer") -> MultiExitModel:
    config = MultiExitConfig(SST2.classes, pooling, pooler, "sst2")  # type: ignore[arg-type]
    return MultiExitModel.from_backbone(encoder, config, seed=0)


def split_tokens(model: MultiExitModel, reviews: Path, split: str) -> Tokens:
    return tokenize(load_examples("sst2", split, reviews), model.tokenizer, 128)


def new_training(encoder: Path, reviews: Path, out: Path, options: TrainingOptions = OPTIONS, **more: Any) -> Training:
    model = more.pop("model", None) or new_model(encoder)
    train, dev = (split_tokens(model, reviews, split) for split in ("train", "dev"))
    train = more.pop("wrap", lambda tokens: tokens)(train)
    return Training(model, train, dev, SST2, options, out, **{"checkpoint_every": 0, **more})


def weights(folder: Path) -> dict[str, Tensor]:
    return load_file(folder / "model.safetensors")


def assert_same_weights(first: Path, second: Path) -> None:
    one, two = weights(first), weights(second)
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)


def plain_loop(encoder: Path, reviews: Path, options: TrainingOptions, ranks: int) -> MultiExitModel:
    """The same training written out by hand: AdamW, decay for matrices, a triangle of learning rates."""
    model = new_model(encoder).train()
    tokens = split_tokens(model, reviews, "train")
    named = list(model.named_parameters())
    optimizers = [
        (rate, torch.optim.AdamW([p for n, p in named if belongs(n, p)], weight_decay=decay))
        for rate, belongs, decay in (
            (options.learning_rate, lambda n, p: n.startswith("backbone") and p.ndim > 1, options.weight_decay),
            (options.learning_rate, lambda n, p: n.startswith("backbone") and p.ndim == 1, 0.0),
            (
                options.head_learning_rate,
                lambda n, p: not n.startswith("backbone") and p.ndim > 1,
                options.weight_decay,
            ),
            (options.head_learning_rate, lambda n, p: not n.startswith("backbone") and p.ndim == 1, 0.0),
        )
    ]
    epochs = [
        training_batches(tokens.lengths, options.batch_size, options.seed, epoch, ranks)
        for epoch in range(options.epochs)
    ]
    rounds = [epoch[start : start + ranks] for epoch in epochs for start in range(0, len(epoch), ranks)]
    warm = round(0.1 * len(rounds))
    for step, group in enumerate(rounds):
        model.zero_grad()
        for rank, rows in enumerate(group):
            torch.manual_seed(step_seed(options.seed, step, rank))
            batch = tokens.batch(rows)
            logits = model(batch)
            loss = sum(nn.functional.cross_entropy(logits[m], batch.labels) for m in range(model.depth))
            (loss / ranks).backward()  # type: ignore[union-attr]
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        factor = (step + 1) / warm if step < warm else (len(rounds) - step) / (len(rounds) - warm)
        for rate, optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = rate * factor
            optimizer.step()
    return model.eval()


def assert_close_weights(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    for name, value in expected.items():
        # Attention does not change when all keys move together, so the true gradient of a key's bias
        # is zero and Adam makes steps of its rounding noise.
        if not name.endswith("key.bias"):
            torch.testing.assert_close(
                found[name], value, atol=1e-5, rtol=1e-3, msg=lambda text, n=name: f"{n}: {text}"
            )


@pytest.fixture(scope="module")
def uninterrupted(encoder: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("trained") / "model"
    result = new_training(encoder, reviews, out).run()
    assert result.finished
    return out


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
        answers = model(batch).argmax(2)
    expected = [100 * accuracy_score(batch.labels, row) for row in answers]
    record = json.loads((uninterrupted / "training.json").read_text())
    assert record["history"][-1]["scores"] == pytest.approx(expected)


@dataclass(frozen=True)
class Alarming(Tokens):
    """Tokens whose batch number ``at`` sends this process a real signal, as Ctrl-C or a scheduler does."""

    at: int = 0
    number: int = signal.SIGINT
    calls: list[int] = field(default_factory=list)

    def batch(self, rows: Any) -> Batch:
        self.calls.append(1)
        if len(self.calls) == self.at:
            os.kill(os.getpid(), self.number)
        return super().batch(rows)


def alarming(at: int, number: int) -> Any:
    return lambda tokens: Alarming(tokens.ids, tokens.types, tokens.labels, tokens.pad_id, tokens.cut, at, number)


@pytest.mark.parametrize(("at", "number"), [(3, signal.SIGINT), (8, signal.SIGTERM), (11, signal.SIGINT)])
def test_a_training_stopped_at_any_step_ends_in_the_same_weights(
    encoder: Path, reviews: Path, uninterrupted: Path, tmp_path: Path, at: int, number: int
) -> None:
    out = tmp_path / "model"
    before = signal.getsignal(signal.SIGINT)
    stopped = new_training(encoder, reviews, out, wrap=alarming(at, number)).run()
    assert (stopped.finished, stopped.steps) == (False, at)
    assert not out.exists()
    assert latest_checkpoint(out) == checkpoints_of(out) / f"step-{at:08d}"
    assert signal.getsignal(signal.SIGINT) is before
    said: list[str] = []
    resumed = new_training(encoder, reviews, out, say=said.append).run(resume=True)
    assert said == [f"resuming after step {at} of 16"]
    assert resumed.finished
    assert_same_weights(out, uninterrupted)
    whole, parts = (json.loads((folder / "training.json").read_text()) for folder in (uninterrupted, out))
    for one, two in zip(whole["history"], parts["history"], strict=True):
        assert one["scores"] == two["scores"]
        assert one["loss"] == pytest.approx(two["loss"])


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from exitbench.models.batches import Tokens
from tests.models.test_training import new_training
torch.set_num_threads(1)
batch, calls = Tokens.batch, []
def deadly(self, rows):
    calls.append(1)
    if len(calls) == 14:
        os.kill(os.getpid(), signal.SIGKILL)
    return batch(self, rows)
Tokens.batch = deadly
new_training(*map(Path, sys.argv[1:]), checkpoint_every=5).run()
"""


def test_a_killed_training_goes_on_after_its_last_checkpoint(
    encoder: Path, reviews: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = subprocess.run([sys.executable, "-c", KILLED, encoder, reviews, out], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [path.name for path in checkpoints_of(out).iterdir()] == ["step-00000010"]
    assert new_training(encoder, reviews, out, checkpoint_every=5).run(resume=True).finished
    assert_same_weights(out, uninterrupted)


def test_a_training_in_two_stages_resumes_in_either(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    options = TrainingOptions(loss="two-stage", epochs=1, batch_size=16, learning_rate=1e-3)
    assert new_training(encoder, reviews, tmp_path / "whole", options).run().finished
    for at in (3, 8, 11):
        out = tmp_path / f"stopped-{at}"
        assert not new_training(encoder, reviews, out, options, wrap=alarming(at, signal.SIGINT)).run().finished
        assert new_training(encoder, reviews, out, options).run(resume=True).finished
        assert_same_weights(out, tmp_path / "whole")


def test_the_second_interrupt_stops_at_once() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), StopRequest() as request:
        os.kill(os.getpid(), signal.SIGINT)
        assert request.made
        os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_training_in_a_thread_leaves_signals_alone(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, batch_size=60)
    training = new_training(encoder, reviews, tmp_path / "model", options)
    thread = threading.Thread(target=training.run)
    thread.start()
    thread.join()
    assert (tmp_path / "model" / "training.json").is_file()


def stopped_training(encoder: Path, reviews: Path, out: Path) -> None:
    new_training(encoder, reviews, out, wrap=alarming(2, signal.SIGINT)).run()


def test_an_unfinished_training_is_not_overwritten(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    stopped_training(encoder, reviews, tmp_path / "model")
    with pytest.raises(InputError, match=r"found an unfinished one in .*: go on with --resume"):
        new_training(encoder, reviews, tmp_path / "model").run()


def test_other_settings_do_not_resume_a_training(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    stopped_training(encoder, reviews, tmp_path / "model")
    other = TrainingOptions(epochs=2, batch_size=16, learning_rate=2e-3, head_learning_rate=5e-3)
    with pytest.raises(InputError, match=r"learning_rate was 0.001, found 0.002"):
        new_training(encoder, reviews, tmp_path / "model", other).run(resume=True)


@pytest.mark.parametrize("name", ["progress.json", "model.safetensors", "optimizer.safetensors"])
def test_a_damaged_checkpoint_is_one_clear_line(encoder: Path, reviews: Path, tmp_path: Path, name: str) -> None:
    stopped_training(encoder, reviews, tmp_path / "model")
    checkpoint = latest_checkpoint(tmp_path / "model")
    assert checkpoint is not None
    (checkpoint / name).write_bytes(b"{")
    with pytest.raises(InputError, match="expected a whole checkpoint in"):
        new_training(encoder, reviews, tmp_path / "model").run(resume=True)


def test_resuming_nothing_starts_from_the_beginning_and_says_so(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    said: list[str] = []
    options = TrainingOptions(epochs=1, batch_size=120)
    assert new_training(encoder, reviews, tmp_path / "model", options, say=said.append).run(resume=True).finished
    assert said == [f"no checkpoint in {tmp_path / 'model.training'}: starting from the beginning"]


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


# -- losses and stages ---------------------------------------------------------------------------


def test_the_depth_weighted_loss_is_pabees() -> None:
    generator = torch.Generator().manual_seed(0)
    logits = torch.randn(4, 7, 3, generator=generator)
    labels = torch.randint(3, (7,), generator=generator)
    each = [nn.functional.cross_entropy(logits[m], labels).item() for m in range(4)]
    weights = stages("depth-weighted", 4)[0].weights
    expected = (1 * each[0] + 2 * each[1] + 3 * each[2] + 4 * each[3]) / 10
    assert exit_loss(logits, labels, weights).item() == pytest.approx(expected)
    assert exit_loss(logits, labels, stages("sum", 4)[0].weights).item() == pytest.approx(sum(each))
    final, internal = stages("two-stage", 4)
    assert exit_loss(logits, labels, final.weights).item() == pytest.approx(each[3])
    assert exit_loss(logits, labels, internal.weights).item() == pytest.approx(sum(each[:3]))


def test_an_unknown_loss_answers_with_the_nearest() -> None:
    with pytest.raises(InputError, match=r"found 'two-stages'. Did you mean two-stage"):
        stages("two-stages", 3)


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
    for stage, expected in zip(stages("two-stage", 3), (final, internal), strict=True):
        trained = open_for_training(model, stage, freeze_embeddings=False)
        parts = {"backbone" if name.startswith("backbone") else name.rpartition(".")[0] for name in trained}
        assert parts == expected


def test_two_stages_change_each_exit_in_its_own_stage(encoder: Path, reviews: Path, tmp_path: Path) -> None:
    options = TrainingOptions(loss="two-stage", epochs=1, batch_size=40)
    result = new_training(encoder, reviews, tmp_path / "model", options).run()
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
    monkeypatch.setenv("TTY_COMPATIBLE", "1")
    monkeypatch.setenv("COLUMNS", "100")
    with ProgressBar("training", 10, done=4) as bar:
        bar.advance(note="loss 0.1234")
        bar.advance()
        bar.say("epoch 1/1: [a line]")
    said = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", capsys.readouterr().err)
    assert "epoch 1/1: [a line]" in said
    assert re.search(r"training.* 6/10 .*loss 0\.1234.*:", said)


def test_without_a_terminal_only_lines_that_stay_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    for visible in (True, False):
        with ProgressBar("training", 10, visible=visible) as bar:
            bar.advance(note="loss 0.1234")
            bar.say("a line")
    assert capsys.readouterr().err == "a line\n"


# -- devices -------------------------------------------------------------------------------------


def test_devices_and_precisions_that_are_not_here_are_refused() -> None:
    assert runs_on_cpu("cpu")
    assert runs_on_cpu("cpu:0")
    assert os.environ.pop("ACCELERATE_TORCH_DEVICE") == "cpu:0"
    with pytest.raises(InputError, match="expected --device auto, cpu, cuda, cuda:N or mps, found 'gpu'"):
        runs_on_cpu("gpu")
    cpu = torch.device("cpu")
    assert autocast_dtype("auto", cpu) is None
    assert autocast_dtype("float32", torch.device("cuda")) is None
    assert autocast_dtype("bfloat16", torch.device("cuda")) is torch.bfloat16
    assert autocast_dtype("float16", torch.device("cuda")) is torch.float16
    with pytest.raises(InputError, match="expected --precision float32 or auto on cpu, found 'bfloat16'"):
        autocast_dtype("bfloat16", cpu)
    with pytest.raises(InputError, match=r"found 'bfloat'. Did you mean bfloat16"):
        autocast_dtype("bfloat", cpu)


@pytest.mark.skipif(torch.accelerator.is_available(), reason="this machine has the device")
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
    said = capsys.readouterr()
    assert said.out == f"{tmp_path / 'model'}: complete\n"
    assert "of 40 texts of train are longer than 6 tokens and were cut" in said.err
    assert "of 20 texts of dev are longer than 6 tokens and were cut" in said.err
    assert "epoch 1/1: loss" in said.err
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
    assert verb(*words, "--text", "q", "--label", "kind", "--epochs", "1", "--loss", "depth-weighted") == 0
    assert MultiExitModel.from_pretrained(tmp_path / "model").config.classes == ("bad", "dull", "good")
    assert "dev accuracy by layer" in capsys.readouterr().err


def test_an_interrupted_verb_keeps_its_checkpoint_and_says_how_to_go_on(
    encoder: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[int] = []
    batch = Tokens.batch

    def interrupted(tokens: Tokens, rows: Any) -> Batch:
        calls.append(1)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGINT)
        return batch(tokens, rows)

    monkeypatch.setattr(Tokens, "batch", interrupted)
    words = ["train", "--model", encoder, "--task", "sst2", "--data-dir", reviews, "--out", tmp_path / "model"]
    assert verb(*words) == 1
    assert "stopped after step 3 of 12; go on with --resume" in capsys.readouterr().err
    assert not (tmp_path / "model").exists()
    assert latest_checkpoint(tmp_path / "model") is not None


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
