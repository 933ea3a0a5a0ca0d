"""Against what people do today: the network at every threshold, the projector, the count of all pairs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from exitbench.benchmarks.measures.ranking import Ranking
from exitbench.benchmarks.replay.trade_off_curve import trade_off_curve
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.outcomes import Outcomes
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.benchmarks.speed.harness.caches import ROWS
from exitbench.benchmarks.speed.harness.ratios import Measured, Ratio, ratio
from exitbench.benchmarks.speed.harness.rows import RecordOne, SpeedRow, Topic
from exitbench.cache import Cache, Head, head_algebra, offset_norms
from exitbench.models import EarlyExitClassifier, MultiExitModel
from exitbench.models.inference import live_layer, model_heads
from exitbench.models.timing import random_batch
from exitbench.signals import Layer, load_registry, score_layers
from exitbench.signals.nsp import null_space_share

SAMPLES, WIDTH, CLASSES = 9_815, 768, 3
THRESHOLDS, TEXTS, TOKENS = 13, 4, 32
IN_A_ROW = 100
"""Readings by the identity that are timed in a row."""

NETWORK = SpeedRow(
    "today-network",
    f"the network run at {THRESHOLDS} thresholds, one text at a time (extrapolated) / CAP's whole curve from the cache",
    "higher",
)
PROJECTOR = SpeedRow("today-projector", "NSP from features by the projector / by offset norm and identity", "higher")
PROJECTOR_STORED = SpeedRow(
    "today-projector-stored", "NSP from features by the projector / by the identity from stored offset norms", "higher"
)
PAIRS = SpeedRow("today-pairs", "DIS of one layer by comparing all pairs / by one sort", "higher")
TOPIC = Topic(
    "Against what people do today",
    f"""
No goals here, only what the ideas are worth. `today-network`: public early-exit code evaluates one threshold at a
time, running the network for every sample. {TEXTS} texts of {TOKENS} tokens are timed at {THRESHOLDS} thresholds
through a random network of BERT-base's shape, *and the time is extrapolated* to the {ROWS:,} samples of the cache,
from which the other side computes scores and the curve at every operating point (the collection of the cache, one
pass of the network, is paid once and not counted). `today-projector`: {SAMPLES:,} features of width {WIDTH} in
memory, float32, {CLASSES} classes; the published form multiplies each by an N x N matrix, the identity is read
{IN_A_ROW} times in a row. `today-pairs`: {SAMPLES:,} samples, the pairs compared in numpy blocks.
""",
    (NETWORK, PROJECTOR, PROJECTOR_STORED, PAIRS),
)


@torch.inference_mode()
def test_the_curve_from_the_cache_against_running_the_network(
    large_cache: Path, bert_base: MultiExitModel, record_ratio: RecordOne
) -> None:
    signal, cache = load_registry().make("cap"), Cache(large_cache)
    batches = [random_batch(bert_base, 1, TOKENS, seed=seed) for seed in range(TEXTS)]
    heads, sample_id = model_heads(bert_base), torch.zeros(1, dtype=torch.int64)
    scores_of_texts = []
    for batch in batches:
        features, logits, _ = bert_base(batch)
        layers = [
            live_layer(signal, bert_base, heads, m, sample_id, logits[m - 1], features[m - 1])
            for m in range(1, bert_base.depth)
        ]
        scores_of_texts.append(score_layers(signal, layers))
    thresholds = np.quantile(torch.cat(scores_of_texts), np.linspace(0, 1, THRESHOLDS))
    classifiers = [EarlyExitClassifier(bert_base, signal, float(threshold)) for threshold in thresholds]

    def from_network() -> None:
        for classifier in classifiers:
            for batch in batches:
                classifier.answer(batch)

    def from_cache() -> None:
        scores = signal_scores(configuration_of(signal, cache.layers), score(cache, signal))
        trade_off_curve(scores, Outcomes.of(cache.predictions(), cache.labels))

    def compare() -> Measured:
        part = ratio(from_network, from_cache, rounds=3)
        whole = Ratio(part.first * cache.rows / TEXTS, part.second)
        return whole.measured(f"extrapolated from {TEXTS} texts to {cache.rows:,}")

    record_ratio(NETWORK, compare)


def projected(features: Tensor, offset: Tensor, projector: Tensor) -> Tensor:
    """NSP as it was published: the shifted feature minus its projection, norm over norm; [samples]."""
    shifted = features + offset
    outside: Tensor = torch.linalg.vector_norm(shifted - shifted @ projector, dim=1)
    return outside.div(torch.linalg.vector_norm(shifted, dim=1))


def read_off(head: Head, logits: Tensor, norms: Tensor) -> Tensor:
    """The same from logits and offset norms, as the signal computes it."""
    return null_space_share(Layer(1, 2, CLASSES, torch.arange(len(logits)), logits, offset_norm=norms, head=head))


@pytest.mark.parametrize("row", [PROJECTOR, PROJECTOR_STORED], ids=lambda row: row.name)
@torch.inference_mode()
def test_nsp_by_the_identity_against_the_projector(row: SpeedRow, record_ratio: RecordOne) -> None:
    generator = torch.Generator().manual_seed(0)
    features = torch.randn((SAMPLES, WIDTH), generator=generator)
    weight, bias = torch.randn((CLASSES, WIDTH), generator=generator), torch.randn(CLASSES, generator=generator)
    head, logits = head_algebra(weight, bias), features @ weight.T + bias
    offset, projector = head.offset.float(), (torch.linalg.pinv(weight) @ weight)
    norms = offset_norms(features, head.offset)
    torch.testing.assert_close(
        read_off(head, logits, norms).float(), projected(features, offset, projector), rtol=0, atol=1e-5
    )

    def by_identity() -> None:
        # Many in a row: right after the other side, the first calls mostly wait for memory that was given back, and
        # with ten of them the whole session read 210x where this file alone read 430x.
        for _ in range(IN_A_ROW):
            read_off(head, logits, norms if row is PROJECTOR_STORED else offset_norms(features, head.offset))

    def compare() -> Measured:
        part = ratio(lambda: projected(features, offset, projector), by_identity, rounds=7)
        return Ratio(part.first, part.second / IN_A_ROW).measured()

    record_ratio(row, compare)


def pair_count(certainty: NDArray[np.float64], right: NDArray[np.bool_], block: int = 256) -> float:
    """DIS by its definition: every hard sample against every easy one, [samples] each."""
    hard, easy = certainty[~right], certainty[right]
    in_order = 0.0
    for start in range(0, len(hard), block):
        part = hard[start : start + block, None]
        in_order += np.count_nonzero(easy > part) + 0.5 * np.count_nonzero(easy == part)
    return 100 * in_order / (len(hard) * len(easy))


def test_dis_by_a_sort_against_all_pairs(record_ratio: RecordOne) -> None:
    rng = np.random.default_rng(0)
    right = rng.random(SAMPLES) < 0.75
    certainty = np.round(rng.normal(size=SAMPLES) + right, 3)

    def by_sort() -> float:
        return float(Ranking(certainty[None], right[None]).dis()[0])

    assert by_sort() == pytest.approx(pair_count(certainty, right))
    record_ratio(PAIRS, lambda: ratio(lambda: pair_count(certainty, right), by_sort, rounds=7).measured())
