"""A text classifier with early exits behind HTTP, in a page: POST {"text": "..."} to /classify.

MODEL=models/bert-sst2 POLICY=policy.json LOG=answers.jsonl uvicorn --app-dir docs --factory service:app

One process answers all requests; each is answered at the layer where it exits, and the next one takes its place.
Every answer is a line of LOG, which `exitbench watch-drift policy.json answers.jsonl` reads.
"""

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TextIO

from fastapi import FastAPI
from pydantic import BaseModel

from exitbench.models import EarlyExitClassifier, LiveService


class Text(BaseModel):
    """What is asked: a text, or a pair of texts."""

    text: str
    pair: str | None = None


class OrderedLog:
    """Lines in the order of the requests. Early exits are answered first: in the order of answers, that is drift."""

    def __init__(self, file: TextIO) -> None:
        self.file, self.ready, self.asked, self.written = file, dict[int, str](), 0, 0

    def ticket(self) -> int:
        """The place of a request that has just come."""
        self.asked += 1
        return self.asked - 1

    def put(self, place: int, line: str) -> None:
        """The line of a request, empty where it failed; written when those before it are."""
        self.ready[place] = line
        while self.written in self.ready:
            self.file.write(self.ready.pop(self.written))
            self.written += 1


def app() -> FastAPI:
    """The service of the model and the policy that the environment names."""
    return service_app(os.environ["MODEL"], os.environ["POLICY"], os.environ["LOG"])


def service_app(model: str | Path, policy: str | Path, log: str | Path) -> FastAPI:
    """Loads the model when the server starts; a policy for another network ends it there."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        classifier = EarlyExitClassifier.from_policy(policy, model)
        classifier.warm_up()
        with LiveService(classifier, batch_size=32) as service, Path(log).open("a", buffering=1) as lines:
            app.state.service, app.state.log = service, OrderedLog(lines)
            yield

    app = FastAPI(lifespan=lifespan)

    @app.post("/classify")
    async def classify(asked: Text) -> dict[str, Any]:
        place, line = app.state.log.ticket(), ""
        try:
            answer = await app.state.service.answer(asked.text, asked.pair)
            record = {"class": answer.label, "exit_layer": answer.exit_layer, "score": answer.score}
            line = json.dumps(record) + "\n"
        finally:
            app.state.log.put(place, line)
        return {**record, "probabilities": answer.probabilities}

    return app
