"""Continuous batching: the exits and answers of the replay, whoever meets whom before which layer."""

import dataclasses
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.errors import InputError
from exitbench.models import Answer, EarlyExitClassifier, LiveService, continuous_answers
from exitbench.models.network.families import FAMILIES
from exitbench.models.serving.continuous import OVERTAKEN, ContinuousBatch, Request
from exitbench.signals import join_states, take_state
from tests.models.test_inference import Stranger
from tests.support.live_models import NOISE, REGISTRY, ROWS, Collected, collected, gaps, literal_exits, ready, texts

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collected(tmp_path_factory.mktemp("continuous"), features="float32", classes=3)


def require_replay(source: Collected, text: str, batch_size: int, in_flight: int) -> list[Answer]:
    """The answers, held against a plain loop over the scores of the cache."""
    cache, signal = source.cache, ready(text, source.cache)
    scores, decided = score(cache, signal), source.decided
    threshold = gaps(scores, signal, cache.layers)[-1]
    exits = np.array(literal_exits(scores, signal, threshold))
    assert len(set(exits.tolist())) > 1
    live = list(
        continuous_answers(
            EarlyExitClassifier(source.model, signal, threshold),
            source.tokens,
            batch_size=batch_size,
            in_flight=in_flight,
        )
    )
    assert [answer.id for answer in live] == list(range(ROWS))
    assert np.array_equal(np.array([answer.exit_layer for answer in live])[decided], exits[decided])
    answers = np.array([answer.class_index for answer in live])
    assert np.array_equal(answers[decided], cache.predictions()[exits - 1, np.arange(ROWS)][decided])
    for row in np.flatnonzero(decided):
        if exits[row] == cache.layers:
            assert live[row].score is None
        else:
            assert live[row].score == pytest.approx(scores[exits[row] - 1, row], rel=NOISE, abs=NOISE)
        shares = cache.logits(int(exits[row]))[row].double().softmax(0).tolist()
        assert live[row].probabilities == pytest.approx(shares, abs=NOISE)
    return live


@pytest.mark.parametrize("text", ["pabee", "random", "f-pabee[divergence=kl,patience=1]", "cap"])
@pytest.mark.parametrize(("batch_size", "in_flight"), [(1, 1), (3, 7), (4, 100)])
def test_answers_are_those_of_the_replay(text: str, batch_size: int, in_flight: int, source: Collected) -> None:
    require_replay(source, text, batch_size, in_flight)


@pytest.mark.parametrize("text", [name for name in sorted(REGISTRY.signals) if name not in ("output", "saturation")])
def test_every_signal_answers_as_in_the_replay(text: str, source: Collected) -> None:
    require_replay(source, text, 4, 9)


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_lets_samples_of_other_lengths_join_on_the_way(family: str, tmp_path: Path) -> None:
    require_replay(collected(tmp_path, family), "cap", 3, 8)


def test_a_memory_travels_with_its_sample(source: Collected) -> None:
    # Stranger compares the ids in its memory with those of the layer at every step; exits are spread over the layers.
    batch = ContinuousBatch(
        EarlyExitClassifier(source.model, Stranger(), 0.0),
        batch_size=4,
        in_flight=11,
        rule=lambda m, ids, scores: ids % 4 + 2 == m,
    )
    for row in range(ROWS):
        batch.add(Request(row, row, source.tokens.only(row)))
    exits = {}
    while len(batch):
        exits |= {answer.id: answer.exit_layer for _, answer in batch.step()}
    assert exits == {row: row % 4 + 2 for row in range(ROWS)}


def layers_and_sizes(classifier: EarlyExitClassifier) -> list[tuple[int, int]]:
    """Which layer runs, and for how many samples, from now on."""
    ran: list[tuple[int, int]] = []
    for index, layer in enumerate(classifier.model.backbone.encoder.layer, start=1):
        layer.register_forward_pre_hook(lambda module, inputs, at=index: ran.append((at, len(inputs[0]))))
    return ran


def by_random(tmp_path: Path) -> tuple[EarlyExitClassifier, Collected]:
    """A model whose exits are a function of ids, half of what is left at every layer."""
    source = collected(tmp_path)
    return EarlyExitClassifier(source.model, REGISTRY.make("random"), 0.5), source


def test_who_exits_is_answered_at_once_and_others_take_the_place(tmp_path: Path) -> None:
    classifier, source = by_random(tmp_path)
    ran = layers_and_sizes(classifier)
    batch = ContinuousBatch(classifier, batch_size=4, in_flight=8)
    for row in range(ROWS):
        batch.add(Request(row, row, source.tokens.only(row)))
    steps: list[tuple[int, list[int]]] = []
    while len(batch):
        answered = batch.step()
        steps.append((ran[-1][0], [answer.exit_layer for _, answer in answered]))
        assert batch.inside <= 8
        # Nobody who has exited is still inside, and whoever leaves a layer does so in that layer's step.
        assert all(layer == steps[-1][0] for layer in steps[-1][1])
    assert sum(len(layers) for _, layers in steps) == ROWS
    assert steps[0][1], "the first batch is answered before the others have begun"
    # Samples of other batches fill up, so that fewer run than if each began and shrank alone, for the same work.
    batches = list(ran)
    alone = [classifier.answers(source.tokens.only(0), first_id=row)[0].exit_layer for row in range(ROWS)]
    assert sum(size for _, size in batches) == sum(alone)
    assert len(batches) < sum(max(alone[at : at + 4]) for at in range(0, ROWS, 4))


def test_order_is_kept_on_request_only(tmp_path: Path) -> None:
    classifier, source = by_random(tmp_path)
    ordered = list(continuous_answers(classifier, source.tokens, batch_size=4, first_id=5))
    assert [answer.id for answer in ordered] == list(range(5, 5 + ROWS))
    free = list(continuous_answers(classifier, source.tokens, batch_size=4, first_id=5, in_order=False))
    assert [answer.id for answer in free] != [answer.id for answer in ordered]
    exits = {answer.id: answer.exit_layer for answer in ordered}
    assert {answer.id: answer.exit_layer for answer in free} == exits


def test_nobody_is_overtaken_without_end(tmp_path: Path) -> None:
    """One sample that stays to the last layer, among others that leave at the first and fill every batch."""
    source = collected(tmp_path)
    classifier = EarlyExitClassifier(source.model, REGISTRY.make("deebert"), 0.5)

    def only_the_first_stays(m: int, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        return ids != 0

    batch = ContinuousBatch(classifier, batch_size=2, in_flight=4, rule=only_the_first_stays)
    for number in range(200):
        batch.add(Request(number, number, source.tokens.only(number % ROWS)))
    answered: list[int] = []
    while len(batch):
        answered += [request.number for request, _ in batch.step()]
    assert len(answered) == 200
    assert answered.index(0) <= (OVERTAKEN + 1) * 4


def test_states_of_several_groups_join_in_their_order() -> None:
    state = (torch.arange(5), [torch.eye(5)], {"a": torch.arange(5) * 10, "b": None})
    parts = [take_state(state, torch.tensor(rows)) for rows in ([0, 1], [2], [3, 4])]
    counts, (matrix,), named = join_states(parts)
    assert counts.tolist() == [0, 1, 2, 3, 4]
    assert torch.equal(matrix, torch.eye(5))
    assert named["a"].tolist() == [0, 10, 20, 30, 40]
    assert named["b"] is None


@pytest.mark.parametrize(("batch_size", "in_flight"), [(0, None), (4, 0)])
def test_an_empty_network_is_refused(batch_size: int, in_flight: int | None, source: Collected) -> None:
    classifier = EarlyExitClassifier(source.model, REGISTRY.make("deebert"), 0.5)
    with pytest.raises(InputError, match="expected batches and a network of at least one sample, found"):
        ContinuousBatch(classifier, batch_size=batch_size, in_flight=in_flight)


def without_score(answers: list[Answer]) -> list[Answer]:
    return [dataclasses.replace(answer, score=None, probabilities=()) for answer in answers]


def test_a_service_answers_in_order_or_as_they_come(source: Collected) -> None:
    classifier = EarlyExitClassifier(source.model, REGISTRY.make("random"), 0.5)
    expected = without_score(classifier.predict(texts(30)))
    with LiveService(classifier, batch_size=4) as service:
        assert without_score(list(service.answers(texts(30)))) == expected
    with LiveService(classifier, batch_size=4) as service:
        free = without_score(list(service.answers(texts(30), in_order=False)))
        assert sorted(free, key=lambda answer: answer.id) == expected
    with pytest.raises(InputError, match="expected a running service, found a closed one"):
        service.submit("good")


def test_closing_answers_what_was_asked(source: Collected) -> None:
    service = LiveService(EarlyExitClassifier(source.model, REGISTRY.make("cap"), 0.3), batch_size=2)
    asked = [service.submit(text) for text in texts(40)]
    service.close()
    assert all(answer.done() and answer.exception() is None for answer in asked)


class Refuses(Stranger):
    """A signal that fails on one sample."""

    def step(self, layer, state):  # type: ignore[no-untyped-def]
        if bool((layer.ids == 3).any()):
            raise ArithmeticError("not this one")
        return super().step(layer, state)


def test_a_batch_that_fails_fails_its_own_requests_only(source: Collected) -> None:
    with LiveService(EarlyExitClassifier(source.model, Refuses(), math.inf), batch_size=1) as service:
        asked = [service.submit(text) for text in texts(6)]
        failed = [number for number, answer in enumerate(asked) if answer.exception(timeout=60) is not None]
        assert failed == [3]
        with pytest.raises(ArithmeticError, match="not this one"):
            asked[3].result()
        assert service.submit("good").result(timeout=60).exit_layer == source.model.depth
