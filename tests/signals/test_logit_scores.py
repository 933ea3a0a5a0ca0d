"""Margin, max-logit, Gini and GEN: against literal sums in fifty digits, on ties, and on real answers."""

import itertools
from decimal import Decimal, localcontext

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import rankdata

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.places import FIXTURES
from exitbench.signals import ExitSignal, score_layers
from exitbench.signals.deebert import DeeBERT
from exitbench.signals.gen import GEN
from exitbench.signals.gini import Gini
from exitbench.signals.margin import Margin
from exitbench.signals.max_logit import MaxLogit

ROWS = st.lists(st.lists(st.floats(-30, 30, width=32), min_size=3, max_size=3), min_size=1, max_size=8)
TWO_CLASS_TWINS = (Margin(), Margin(probabilities=True), Gini(), GEN(), GEN(gamma=1), MaxLogit(center=True))


def exact_probabilities(logits: list[float]) -> list[Decimal]:
    """The softmax, largest first, by its definition."""
    weights = sorted((Decimal(logit).exp() for logit in logits), reverse=True)
    return [weight / sum(weights) for weight in weights]


def exact(kind: str, logits: list[float]) -> float:
    """Each score by its definition, in fifty digits."""
    with localcontext() as context:
        context.prec = 50
        p = exact_probabilities(logits)
        values = {
            "margin": Decimal(max(logits)) - Decimal(sorted(logits)[-2]),
            "margin of probabilities": p[0] - p[1],
            "max-logit": Decimal(max(logits)),
            "max-logit centred": Decimal(max(logits)) - sum(map(Decimal, logits)) / len(logits),
            "gini": 1 - sum(q * q for q in p),
            "gen": -sum((q * (1 - q)) ** Decimal("0.1") for q in p if q < 1),
            "gen of two": -sum((q * (1 - q)) ** Decimal("0.5") for q in p[:2] if q < 1),
        }
        return float(values[kind])


SIGNALS: list[tuple[str, ExitSignal]] = [
    ("margin", Margin()),
    ("margin of probabilities", Margin(probabilities=True)),
    ("max-logit", MaxLogit()),
    ("max-logit centred", MaxLogit(center=True)),
    ("gini", Gini()),
    ("gen", GEN()),
    ("gen of two", GEN(gamma=0.5, top=2)),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "signal"), SIGNALS, ids=[kind for kind, _ in SIGNALS])
@settings(max_examples=25, deadline=None)
@given(rows=ROWS)
def test_scores_are_those_of_the_definition_in_fifty_digits(layers_of, kind: str, signal: ExitSignal, rows) -> None:
    logits = np.array(rows, dtype=np.float32)
    scores = score_layers(signal, layers_of(np.stack([logits, logits])))[0]
    expected = [exact(kind, [float(logit) for logit in row]) for row in logits]
    # A margin of probabilities and a centred logit round in the units of what they are made from.
    np.testing.assert_allclose(scores, expected, rtol=1e-11, atol=1e-14 if "centred" in kind else 1e-30)


@pytest.mark.parametrize("seed", range(3))
def test_with_two_classes_all_of_them_rank_as_entropy(layers_of, real_looking, seed: int) -> None:
    layers = layers_of(real_looking(seed=seed, samples=400))
    expected = [rankdata(-row) for row in score_layers(DeeBERT(), layers)]
    for signal in TWO_CLASS_TWINS:
        certainty = score_layers(signal, layers) * (1 if signal.exits_when == ">=" else -1)
        for row, ranks in zip(certainty, expected, strict=True):
            np.testing.assert_array_equal(rankdata(row.numpy().round(14)), rankdata(ranks), err_msg=signal.text)


def test_with_three_classes_no_two_of_them_rank_alike(layers_of, real_looking) -> None:
    layers = layers_of(real_looking(seed=1, samples=300, classes=3))
    signals = (DeeBERT(), Margin(), Margin(probabilities=True), Gini(), GEN(), MaxLogit(), MaxLogit(center=True))
    ranks = [rankdata(score_layers(signal, layers)[5] * (1 if signal.exits_when == ">=" else -1)) for signal in signals]
    for (first, a), (second, b) in itertools.combinations(zip(signals, ranks, strict=True), 2):
        assert not np.array_equal(a, b), f"{first.text} and {second.text}"


def test_classes_that_tie_for_the_lead_have_no_margin(layers_of) -> None:
    layers = layers_of(np.array([[[2.0, 2.0, -1.0], [0.0, 0.0, 0.0]]] * 2))
    for signal in (Margin(), Margin(probabilities=True)):
        assert score_layers(signal, layers)[0].tolist() == [0.0, 0.0]
    assert score_layers(Gini(), layers)[0][1].item() == pytest.approx(2 / 3, abs=1e-15)
    assert score_layers(GEN(gamma=1), layers)[0][1].item() == pytest.approx(-2 / 3, abs=1e-15)


def test_gen_counts_the_most_probable_classes_only(layers_of) -> None:
    logits = np.random.default_rng(0).normal(size=(2, 30, 10)) * 2
    layers = layers_of(logits)
    assert torch.equal(score_layers(GEN(top=10), layers), score_layers(GEN(), layers))
    assert (score_layers(GEN(top=3), layers) > score_layers(GEN(top=4), layers)).all()


@pytest.mark.long
@pytest.mark.parametrize("name", ["mpnet-base-mnli-dev", "mpnet-base-sst2-dev"])
def test_on_real_answers_scores_are_those_of_plain_arrays(name: str) -> None:
    cache = Cache(FIXTURES / "caches" / name)
    for layer in (1, cache.layers // 2, cache.layers - 1):
        logits = cache.logits(layer).double().numpy()
        ordered = np.sort(logits, axis=1)
        p = np.exp(logits - logits.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        expected = {
            "margin": ordered[:, -1] - ordered[:, -2],
            "margin[probabilities=true]": np.sort(p, axis=1)[:, -1] - np.sort(p, axis=1)[:, -2],
            "max-logit": logits.max(axis=1),
            "gini": 1 - (p**2).sum(axis=1),
            "gen": -((p * (1 - p)) ** 0.1).sum(axis=1),
        }
        for text, values in expected.items():
            np.testing.assert_allclose(score(cache, text)[layer - 1], values, rtol=1e-9, atol=1e-12, err_msg=text)
