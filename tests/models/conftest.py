"""Shared pieces of the models room's tests: no hub, no progress bars of libraries, few threads."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from transformers.utils import logging

from tests.support.tiny_models import save_backbone, tiny_model, write_reviews
from tests.support.trainings import new_training


@pytest.fixture(autouse=True, scope="session")
def quiet() -> Iterator[None]:
    logging.disable_progress_bar()
    threads = torch.get_num_threads()
    # Tiny matrices: a second thread costs more than it brings, and the machine is shared.
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny pretrained-looking BERT folder with its tokenizer."""
    return save_backbone(tmp_path_factory.mktemp("encoders") / "tiny-bert", "bert", depth=3)


@pytest.fixture(scope="session")
def reviews(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """SST-2-like data: 120 rows to train on, 53 for dev."""
    return write_reviews(tmp_path_factory.mktemp("data") / "SST-2", {"train": 120, "dev": 53})


@pytest.fixture(scope="session")
def exits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random multi-exit model folder for sst2, 4 layers of width 16."""
    return tiny_model(tmp_path_factory.mktemp("models") / "tiny-sst2")


@pytest.fixture(scope="module")
def uninterrupted(encoder: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model folder at the end of the small training."""
    out = tmp_path_factory.mktemp("trained") / "model"
    result = new_training(encoder, reviews, out).run()
    assert result.finished
    return out
