"""A classifier that answers from any thread or event loop, with continuous batching behind it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, as_completed
from types import TracebackType
from typing import Self

from exitbench.errors import InputError
from exitbench.models.answers import Answer
from exitbench.models.inference import EarlyExitClassifier
from exitbench.models.serving.continuous import ContinuousBatch, Request


class LiveService:
    """Answers requests as they come: each is answered when it exits, and the next one takes its place.

    One thread runs the network. A batch that fails fails its own requests and no others. Ids count requests from 0.
    ``batch_size`` samples go through a layer together at most, ``in_flight`` (by default twice as many) are inside.
    """

    def __init__(self, classifier: EarlyExitClassifier, *, batch_size: int = 32, in_flight: int | None = None) -> None:
        self._classifier = classifier
        self._batch = ContinuousBatch(classifier, batch_size=batch_size, in_flight=in_flight)
        self._arrived: deque[Request] = deque()
        self._changed = threading.Condition()
        self._number = 0
        self._closed = False
        self._thread = threading.Thread(target=self._serve, name="exitbench service", daemon=True)
        self._thread.start()

    def submit(self, text: str, pair: str | None = None) -> Future[Answer]:
        """Ask for one answer; an InputError once the service is closed."""
        tokens = self._classifier.tokens([text], None if pair is None else [pair])
        answer: Future[Answer] = Future()
        with self._changed:
            if self._closed:
                raise InputError("expected a running service, found a closed one")
            self._arrived.append(Request(self._number, self._number, tokens, key=answer))
            self._number += 1
            self._changed.notify()
        return answer

    async def answer(self, text: str, pair: str | None = None) -> Answer:
        """The same for an event loop, which goes on meanwhile."""
        return await asyncio.wrap_future(self.submit(text, pair))

    def answers(self, texts: Iterable[str], *, in_order: bool = True) -> Iterator[Answer]:
        """The answers to some texts, in their order or as they come."""
        asked = [self.submit(text) for text in texts]
        return (answer.result() for answer in (asked if in_order else as_completed(asked)))

    def close(self) -> None:
        """Answer what was asked, take no more, and end the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._arrived and not len(self._batch) and not self._closed:
                    self._changed.wait()
                if not self._arrived and not len(self._batch):
                    return
                while self._arrived:
                    request = self._arrived.popleft()
                    # A caller may have given up meanwhile; from here on nobody can.
                    if request.key.set_running_or_notify_cancel():
                        self._batch.add(request)
            try:
                answered = self._batch.step()
            except Exception as error:  # whatever a signal raises belongs to those who asked
                for request in self._batch.running:
                    request.key.set_exception(error)
            else:
                for request, answer in answered:
                    request.key.set_result(answer)
