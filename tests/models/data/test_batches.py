"""Token batches: padding, cutting, and an order that is a function of seed and epoch."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from exitbench.models.data.batches import POOL, length_batches, tokenize, training_batches
from exitbench.models.data.labelled import Examples
from tests.support.tiny_models import PAD, VOCABULARY, tiny_tokenizer

CLASSES = ("negative", "positive")


def ids_of(words: str) -> list[int]:
    return [VOCABULARY[word] for word in words.split()]


def test_a_batch_is_padded_to_its_longest_row() -> None:
    examples = Examples(["good film", "a", "it is bad"], None, [1, 0, 0], CLASSES)
    tokens = tokenize(examples, tiny_tokenizer(), 128)
    batch = tokens.batch([2, 1])
    assert batch.input_ids.tolist() == [ids_of("<s> it is bad </s>"), [*ids_of("<s> a </s>"), PAD, PAD]]
    assert batch.attention_mask.tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    assert batch.labels is not None
    assert batch.labels.tolist() == [0, 0]
    assert batch.samples == 2
    assert tokens.cut == 0


def test_pairs_carry_token_types() -> None:
    tokens = tokenize(Examples(["a film"], ["very dull"], None, CLASSES), tiny_tokenizer(), 128)
    batch = tokens.batch([0])
    assert batch.token_type_ids is not None
    assert batch.token_type_ids.tolist() == [[0, 0, 0, 0, 1, 1, 1]]
    assert batch.labels is None


def test_a_tokenizer_without_token_types_gives_none() -> None:
    batch = tokenize(Examples(["a"], None, [0], CLASSES), tiny_tokenizer(token_types=False), 128).batch([0])
    assert batch.token_type_ids is None


def test_long_texts_are_cut_and_counted() -> None:
    examples = Examples(["good " * 3000, "a b", "bad " * 6], ["film"] * 3, [1, 0, 1], CLASSES)
    tokens = tokenize(examples, tiny_tokenizer(), 8)
    assert tokens.cut == 2
    assert tokens.lengths.tolist() == [8, 6, 8]
    assert tokens.ids[0] == ids_of("<s> good good good good </s> film </s>")
    assert tokens.types is not None
    assert tokens.types[0] == [0, 0, 0, 0, 0, 0, 1, 1]


def test_many_texts_are_tokenised_in_their_order() -> None:
    words = [word for word in VOCABULARY if not word.startswith("<")]
    texts = [words[index % len(words)] for index in range(2100)]
    tokens = tokenize(Examples(texts, None, None, CLASSES), tiny_tokenizer(), 8)
    assert [row[1] for row in tokens.ids] == [VOCABULARY[text] for text in texts]


def test_moving_a_batch_moves_every_part() -> None:
    batch = tokenize(Examples(["a"], None, [0], CLASSES), tiny_tokenizer(), 8).batch([0]).to(torch.device("meta"))
    parts = (batch.input_ids, batch.attention_mask, batch.token_type_ids, batch.labels)
    assert all(part is not None and part.device.type == "meta" for part in parts)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.integers(1, 400),
    size=st.integers(1, 17),
    seed=st.integers(0, 5),
    epoch=st.integers(0, 3),
)
def test_an_epoch_has_every_row_once(rows: int, size: int, seed: int, epoch: int) -> None:
    lengths = np.random.default_rng(rows).integers(3, 60, rows)
    batches = training_batches(lengths, size, seed, epoch)
    assert sorted(row for batch in batches for row in batch) == list(range(rows))
    assert all(len(batch) <= size for batch in batches)
    assert batches == training_batches(lengths, size, seed, epoch)


def test_epochs_and_seeds_have_orders_of_their_own() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 500)
    orders = {str(training_batches(lengths, 10, seed, epoch)) for seed in range(3) for epoch in range(3)}
    assert len(orders) == 9


def test_training_batches_hold_rows_of_like_length() -> None:
    lengths = np.random.default_rng(0).integers(3, 60, 40 * POOL)
    padded = sum(len(batch) * lengths[batch].max() for batch in training_batches(lengths, 8, 0, 0))
    plain = sum(8 * lengths[start : start + 8].max() for start in range(0, len(lengths), 8))
    assert padded < 1.1 * lengths.sum() < plain


@pytest.mark.parametrize("ranks", [1, 2, 3, 5])
def test_all_processes_take_the_same_number_of_steps(ranks: int) -> None:
    lengths = np.full(70, 5)
    batches = training_batches(lengths, 10, 0, 0, ranks)
    assert len(batches) % ranks == 0
    assert len(batches) == 7 - 7 % ranks


def test_fewer_batches_than_processes_are_repeated() -> None:
    assert (
        training_batches(np.array([4, 4]), 10, 0, 0, ranks=3) == [training_batches(np.array([4, 4]), 10, 0, 0)[0]] * 3
    )


def test_length_batches_cover_a_range_longest_first() -> None:
    lengths = np.array([9, 9, 3, 8, 5, 8, 9])
    assert length_batches(lengths, range(2, 6), 3) == [[3, 5, 4], [2]]
