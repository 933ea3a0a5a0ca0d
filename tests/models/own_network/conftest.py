"""A file with a network of a user's own."""

from pathlib import Path

import pytest

from tests.support.own_networks import CNN


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "two_blocks.py"
    path.write_text(CNN, encoding="utf-8")
    return path
