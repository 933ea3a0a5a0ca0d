"""Live inference exits where the replay of a cache does, for every signal and every family of models."""

from pathlib import Path

import numpy as np
import pytest

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.models import EarlyExitClassifier
from exitbench.models.exit_thresholds import unreachable_threshold
from exitbench.models.network.families import FAMILIES
from tests.support.live_models import NOISE, REGISTRY, ROWS, Collected, collected, gaps, literal_exits, ready, texts

pytestmark = pytest.mark.long

SIGNALS = [
    "deebert",
    "deebert[normalize=true]",
    "right-tool",
    "right-tool[temperature=fitted]",
    "pabee",
    "f-pabee",
    "f-pabee[divergence=kl,patience=1]",
    "pcee",
    "pcee[patience=3]",
    "e-lang",
    "nsp",
    "nsp[center=true]",
    "cap",
    "cap[alpha=10,center=true]",
    "random",
    "margin",
    "margin[probabilities=true]",
    "max-logit",
    "gini",
    "gen",
    "beem",
    "beem[weights=accuracy]",
    "calibrated[of=deebert]",
    "calibrated[of=f-pabee[patience=1],method=isotonic]",
    "calibrated[of=meta]",
    "meta",
    "meta[target=final]",
    "jei-gate[tradeoff=0.15]",
    "eenet",
    "settled",
]
LEARNED = [signal for signal in map(REGISTRY.make, sorted(REGISTRY.signals)) if signal.needs_fit]


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collected(tmp_path_factory.mktemp("inference"), classes=request.param)


def test_every_signal_that_learns_is_among_them() -> None:
    named = {text.partition("[")[0] for text in SIGNALS} | set(FROM_FEATURES)
    assert named >= {signal.name for signal in LEARNED}


@pytest.mark.parametrize("text", SIGNALS)
def test_exits_and_answers_equal_the_replay_of_a_cache(text: str, source: Collected) -> None:
    cache, signal = source.cache, ready(text, source.cache)
    scores = score(cache, signal)
    predictions = cache.predictions()
    decided = source.decided
    assert decided.sum() >= 0.9 * ROWS, f"{ROWS - decided.sum()} samples tie: too few are left to compare"
    seen = set()
    alone_or_together = 1 if len(cache.manifest.task.classes) == 2 else ROWS
    for threshold, batch_size in zip(gaps(scores, signal, cache.layers), (5, alone_or_together), strict=True):
        exits = np.array(literal_exits(scores, signal, threshold))
        seen |= set(exits.tolist())
        live = EarlyExitClassifier(source.model, signal, threshold).answers(source.tokens, batch_size=batch_size)
        assert [answer.id for answer in live] == list(range(ROWS))
        where = f"{text} at {threshold}, batches of {batch_size}"
        assert np.array_equal(np.array([answer.exit_layer for answer in live])[decided], exits[decided]), where
        answers = np.array([answer.class_index for answer in live])
        assert np.array_equal(answers[decided], predictions[exits - 1, np.arange(ROWS)][decided]), where
        # Between two knots of an isotonic map that are close a little noise becomes more.
        noise = 100 * NOISE if "isotonic" in text else NOISE
        for row in np.flatnonzero(decided & (exits < cache.layers)):
            assert live[row].score == pytest.approx(scores[exits[row] - 1, row], rel=noise, abs=noise), where
        assert all(answer.score is None for answer in live if answer.exit_layer == cache.layers)
    assert len(seen) >= 2, "the thresholds tried say too little"


@pytest.fixture(scope="module")
def with_features(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collected(tmp_path_factory.mktemp("features"), features="float32")


FROM_FEATURES = [signal.name for signal in LEARNED if "features" in signal.inputs]
"""Whatever learns from features, without being listed."""


@pytest.mark.parametrize(
    "text",
    [
        *FROM_FEATURES,
        "berxit[form=published]",
        "calibrated[of=vim]",
        "knn-agreement[neighbours=3]",
        "mahalanobis[form=margin]",
        "meta[features=true]",
        "palbert[form=linear]",
    ],
)
def test_signals_learned_from_features_exit_live_as_in_the_replay(text: str, with_features: Collected) -> None:
    source, signal = with_features, ready(text, with_features.cache)
    scores = score(source.cache, signal)
    decided = source.decided
    for threshold, batch_size in zip(gaps(scores, signal, source.cache.layers), (32, 1), strict=True):
        exits = np.array(literal_exits(scores, signal, threshold))
        live = EarlyExitClassifier(source.model, signal, threshold).answers(source.tokens, batch_size=batch_size)
        exited = np.array([answer.exit_layer for answer in live])
        assert np.array_equal(exited[decided], exits[decided]), f"at {threshold}, batches of {batch_size}"


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_drops_samples_and_keeps_the_exits_of_its_replay(family: str, tmp_path: Path) -> None:
    source = collected(tmp_path, family)
    signal = REGISTRY.make("cap")
    scores = score(source.cache, signal)
    threshold = gaps(scores, signal, source.cache.layers)[-1]
    exits = np.array(literal_exits(scores, signal, threshold))
    live = EarlyExitClassifier(source.model, signal, threshold).answers(source.tokens, batch_size=32)
    decided = source.decided
    assert len(set(exits.tolist())) > 1
    assert np.array_equal(np.array([answer.exit_layer for answer in live])[decided], exits[decided])


@pytest.mark.parametrize("text", SIGNALS)
def test_nothing_passes_the_unreachable_threshold(text: str, source: Collected) -> None:
    signal = ready(text, source.cache)
    live = EarlyExitClassifier(source.model, signal, unreachable_threshold(signal))
    assert {answer.exit_layer for answer in live.predict(texts(6))} == {source.model.depth}


def test_saturation_exits_live_as_in_the_replay_where_one_pooler_serves_all_layers(tmp_path: Path) -> None:
    source = collected(tmp_path, features="float32", pooler="shared")
    signal = REGISTRY.make("saturation")
    scores = score(source.cache, signal)
    for threshold in gaps(scores, signal, source.cache.layers):
        exits = literal_exits(scores, signal, threshold)
        for batch_size in (1, 32):
            live = EarlyExitClassifier(source.model, signal, threshold).answers(source.tokens, batch_size=batch_size)
            assert [answer.exit_layer for answer in live] == exits
