"""The HTTP example of the docs: 200 requests at once on loopback, none lost, each answered as the replay answers it."""

import asyncio
import importlib.util
import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from exitbench.errors import InputError
from exitbench.models import MultiExitModel
from tests.support.command_line import exit_code
from tests.support.live_models import NOISE, ROWS, Collected, collected, texts, write_live_policy

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[3] / "docs" / "service.py"
REQUESTS = 200


def example() -> Any:
    spec = importlib.util.spec_from_file_location("service", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@contextmanager
def served(app: Any) -> Iterator[int]:
    """The port of a running server."""
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started and thread.is_alive():
            time.sleep(0.01)
        yield server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


async def post(port: int, record: dict[str, Any]) -> tuple[int, Any]:
    """The status and the content of one answer, over a connection of its own."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    body = json.dumps(record).encode()
    head = f"POST /classify HTTP/1.1\r\nHost: here\r\nConnection: close\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    answer = await reader.read()
    writer.close()
    return int(answer.split()[1]), json.loads(answer.partition(b"\r\n\r\n")[2])


async def all_at_once(port: int, asked: list[str]) -> list[tuple[int, Any]]:
    return await asyncio.gather(*(post(port, {"text": text}) for text in asked))


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    folder = tmp_path_factory.mktemp("service")
    source = collected(folder, classes=3)
    source.model.save_pretrained(folder / "model")
    return source


def test_200_requests_at_once_are_answered_as_in_the_replay(source: Collected, tmp_path: Path) -> None:
    cache, log = source.cache, tmp_path / "answers.jsonl"
    _, exits = write_live_policy(tmp_path / "policy.json", source, "f-pabee[divergence=kl,patience=1]")
    assert len(set(exits)) > 1
    rows = [number % ROWS for number in range(REQUESTS)]
    with served(example().service_app(cache.path.parent / "model", tmp_path / "policy.json", log)) as port:
        answers = asyncio.run(all_at_once(port, [texts()[row] for row in rows]))
        assert asyncio.run(post(port, {"words": "none"}))[0] == 422
    assert [status for status, _ in answers] == [200] * REQUESTS
    decided = source.decided
    for row, (_, answer) in zip(rows, answers, strict=True):
        if decided[row]:
            logits = cache.logits(exits[row])[row].double()
            assert answer["exit_layer"] == exits[row]
            assert answer["class"] == source.model.config.classes[int(logits.argmax())]
            assert answer["probabilities"] == pytest.approx(logits.softmax(0).tolist(), abs=NOISE)
    logged = [json.loads(line)["exit_layer"] for line in log.read_text().splitlines()]
    assert sorted(logged) == sorted(answer["exit_layer"] for _, answer in answers)
    # In the order of answers, early exits would stand first, which is drift.
    assert exit_code("watch-drift", tmp_path / "policy.json", log) == 0


def test_the_service_does_not_start_for_another_network(source: Collected, tmp_path: Path) -> None:
    write_live_policy(tmp_path / "policy.json", source, "cap")
    other = MultiExitModel.from_pretrained(source.cache.path.parent / "model")
    other.backbone.embeddings.word_embeddings.weight.data[0, 0] += 1
    app = example().service_app(other, tmp_path / "policy.json", tmp_path / "log")

    async def start() -> None:
        async with app.router.lifespan_context(app):
            raise AssertionError("it started")

    with pytest.raises(InputError, match="the heads are equal, the encoder is not"):
        asyncio.run(start())
