"""Collecting against a bare forward pass over the same batches, as a ratio inside one run."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench.benchmarks.speed.harness.ratios import Measured, ratio
from exitbench.benchmarks.speed.harness.rows import RecordOne, SpeedRow, Topic
from exitbench.cache import TASKS
from exitbench.models import MultiExitConfig, MultiExitModel, Tokens
from exitbench.models.collecting import collect
from exitbench.models.data.batches import length_batches

ROWS, BATCH, WORDS = 256, 32, 1000

COLLECTING = {
    features: SpeedRow(
        f"collecting-{features}",
        f"throughput of collecting ({words}) / throughput of a bare forward pass over the same batches",
        "higher",
        goal=0.9,
        margin=0.15,
    )
    for features, words in {"float16": "features stored as float16", "none": "a compact cache"}.items()
}
TOPIC = Topic(
    "Collecting",
    f"""
{ROWS} texts of 8 to 63 tokens in batches of {BATCH} through six layers of width 512. The bare pass runs the
backbone and keeps nothing; collecting also runs poolers and heads, computes offset norms, writes, hashes and
flushes the cache.
""",
    tuple(COLLECTING.values()),
)


@pytest.fixture(scope="module")
def network() -> MultiExitModel:
    """Six layers of BERT-small's width: large enough that the layers, not Python, take the time."""
    from transformers import AutoModel, BertConfig

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=WORDS, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048
    )
    backbone: Any = AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    return MultiExitModel(backbone, MultiExitConfig(("negative", "positive"), "mean", "per-layer")).eval()


@pytest.fixture(scope="module")
def tokens() -> Tokens:
    generator = np.random.default_rng(0)
    ids = [generator.integers(5, WORDS, length).tolist() for length in generator.integers(8, 64, ROWS)]
    return Tokens(ids, None, torch.from_numpy(generator.integers(0, 2, ROWS)), 0, 0)


@torch.no_grad()
def bare_forward(network: MultiExitModel, tokens: Tokens) -> None:
    for rows in length_batches(tokens.lengths, range(ROWS), BATCH):
        batch = tokens.batch(rows)
        network.backbone(input_ids=batch.input_ids, attention_mask=batch.attention_mask)


@pytest.mark.parametrize("features", COLLECTING)
def test_collecting_keeps_nine_tenths_of_a_bare_forward_pass(
    network: MultiExitModel, tokens: Tokens, tmp_path: Path, features: str, record_ratio: RecordOne
) -> None:
    out = tmp_path / "cache"

    def whole() -> None:
        shutil.rmtree(out, ignore_errors=True)
        collect(network, tokens, TASKS["sst2"], "dev", out, features=features, batch_size=BATCH, name="speed")

    def compare() -> Measured:
        return ratio(lambda: bare_forward(network, tokens), whole, rounds=3).measured()

    record_ratio(COLLECTING[features], compare)
