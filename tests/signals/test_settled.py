"""Settled: two logistic regressions whose mean is the score; hopeless samples may exit, others wait for their use."""

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression

from exitbench.signals import score_layers
from exitbench.signals.conformance.synthetic_layers import synthetic_layers
from exitbench.signals.settled import Settled, harmless
from tests.signals.test_meta import literal_columns
from tests.support.planted_layers import layers_from, nothing_decides


def log_odds_by_scikit_learn(columns: np.ndarray, target: np.ndarray) -> np.ndarray:
    spread = columns.std(axis=0)
    scaled = (columns - columns.mean(axis=0)) / np.where(spread > 0, spread, 1)
    return (
        LogisticRegression(C=1 / (0.03 * len(target)), tol=1e-12, max_iter=10_000)
        .fit(scaled, target)
        .decision_function(scaled)
    )


@pytest.mark.parametrize(("learns", "share"), [("agreement", 0.0), ("both", 0.5), ("harmlessness", 1.0)])
def test_the_score_is_the_mean_of_two_regressions_on_literal_columns(learns: str, share: float) -> None:
    data = synthetic_layers(300, depth=4, classes=3, seed=5)
    logits = np.stack([layer.logits.double().numpy() for layer in data.layers])
    answers, labels = logits.argmax(axis=2), data.labels.numpy()
    scores = score_layers(Settled(learns=learns).fit(data.layers, data.labels), data.layers).numpy()
    for layer in range(3):
        columns = literal_columns(logits, layer)
        harmful = np.array(
            [answers[-1, row] == labels[row] and answers[layer, row] != labels[row] for row in range(300)]
        )
        agreement = log_odds_by_scikit_learn(columns, answers[layer] == answers[-1])
        harmlessness = log_odds_by_scikit_learn(columns, ~harmful)
        expected = 1 / (1 + np.exp(-((1 - share) * agreement + share * harmlessness)))
        np.testing.assert_allclose(scores[layer], expected, atol=1e-5)


def test_only_a_right_answer_of_the_last_layer_can_be_lost() -> None:
    answer, final, label = (torch.tensor(column) for column in ([0, 1, 1, 1, 2], [0, 0, 0, 1, 1], [0, 0, 1, 0, 0]))
    assert harmless(answer, final, label).tolist() == [True, False, True, True, True]


def hopeless(rows: int, seed: int) -> tuple[list, torch.Tensor]:
    """Three classes: an answer of class 2 is always wrong, and the last layer, which says 0, is wrong about it too.

    An answer of class 1 with a small margin is wrong, and the last layer puts it right; all others are right.
    """
    draw = np.random.default_rng(seed)
    answers = draw.integers(0, 3, rows)
    margins = draw.uniform(0.5, 3.0, rows)
    put_right = (answers == 1) & (margins < 1.5)
    labels = np.select([answers == 2, put_right], [1, 0], answers)
    final = np.where(answers == 2, 0, labels)
    logits = np.zeros((3, rows, 3))
    for layer, chosen, margin in ((0, answers, margins), (1, answers, margins), (2, final, np.full(rows, 3.0))):
        logits[layer, np.arange(rows), chosen] = margin
    return layers_from(logits), torch.from_numpy(labels)


def test_hopeless_samples_exit_before_those_that_the_last_layer_puts_right() -> None:
    layers, labels = hopeless(2000, seed=0)
    fresh, _ = hopeless(2000, seed=1)
    score = score_layers(Settled(learns="harmlessness").fit(layers, labels), fresh)[1]
    answers, margins = fresh[1].prediction, fresh[1].logits.amax(dim=1)
    put_right = (answers == 1) & (margins < 1.2)
    assert score[answers == 2].min() > score[put_right].max()
    agreement = score_layers(Settled(learns="agreement").fit(layers, labels), fresh)[1]
    assert agreement[answers == 2].max() < agreement[answers == 0].min()


def test_where_nothing_decides_nothing_is_learned() -> None:
    layers, labels = nothing_decides(4000, seed=0)
    fresh, fresh_labels = nothing_decides(4000, seed=1)
    score = score_layers(Settled().fit(layers, labels), fresh)[1]
    kind = harmless(fresh[1].prediction, fresh[-1].prediction, fresh_labels)
    lead = score[kind][:, None] - score[~kind][None, :]
    assert float((lead > 0).double().mean()) == pytest.approx(0.5, abs=0.04)


def test_learned_without_labels_it_is_agreement() -> None:
    data = synthetic_layers(300, depth=4, classes=2, seed=1)
    by_agreement = score_layers(Settled(learns="agreement").fit(data.layers, data.labels), data.layers)
    without = score_layers(Settled(target="final").fit(data.layers, torch.zeros_like(data.labels)), data.layers)
    torch.testing.assert_close(without, by_agreement)
