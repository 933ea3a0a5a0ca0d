"""An interrupted training goes on where it was and ends in the same weights; what cannot go on says so."""

import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from exitbench.errors import InputError
from exitbench.models.training.checkpoints import checkpoints_of, latest_checkpoint
from exitbench.models.training.interrupts import StopRequest
from exitbench.models.training.learning_rates import TrainingOptions
from tests.support.trainings import alarming, assert_same_weights, new_training

pytestmark = pytest.mark.long


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
    printed: list[str] = []
    resumed = new_training(encoder, reviews, out, report=printed.append).run(resume=True)
    assert printed == [f"resuming after step {at} of 16"]
    assert resumed.finished
    assert_same_weights(out, uninterrupted)
    whole, parts = (json.loads((folder / "training.json").read_text()) for folder in (uninterrupted, out))
    for entry, two in zip(whole["history"], parts["history"], strict=True):
        assert entry["scores"] == two["scores"]
        assert entry["loss"] == pytest.approx(two["loss"])


KILLED = """
import os, signal, sys
from pathlib import Path
import torch
from exitbench.models.data.batches import Tokens
from tests.support.trainings import new_training
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


@pytest.mark.process
def test_a_killed_training_goes_on_after_its_last_checkpoint(
    encoder: Path, reviews: Path, uninterrupted: Path, tmp_path: Path
) -> None:
    out = tmp_path / "model"
    done = subprocess.run([sys.executable, "-c", KILLED, encoder, reviews, out], check=False, capture_output=True)
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()
    assert [path.name for path in checkpoints_of(out).glob("step-*")] == ["step-00000010"]
    assert new_training(encoder, reviews, out, checkpoint_every=5).run(resume=True).finished
    assert_same_weights(out, uninterrupted)


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
    printed: list[str] = []
    options = TrainingOptions(epochs=1, batch_size=120)
    assert new_training(encoder, reviews, tmp_path / "model", options, report=printed.append).run(resume=True).finished
    assert printed == [f"no checkpoint in {tmp_path / 'model.training'}: starting from the beginning"]
