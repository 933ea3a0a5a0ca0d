"""Exported pieces, read again and run one after the other, give the outputs of the network and so its exits."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from exitbench.models import EarlyExitClassifier
from exitbench.models.serving.exported import export_segments
from tests.support.live_models import REGISTRY, model_of, texts

pytestmark = pytest.mark.long


def run_pieces(pieces: list[Any], rows: Any, threshold: float) -> tuple[list[int], list[torch.Tensor]]:
    """Exits of a batch by entropy after every piece, as a runner would take them, and the logits on the way."""
    embed, *layers = pieces
    batch = rows.batch(range(len(rows)))
    hidden = embed(batch.input_ids, batch.attention_mask, batch.token_type_ids)
    exits = [len(layers)] * len(rows)
    outputs = []
    for m, layer in enumerate(layers, start=1):
        hidden, _, logits = layer(hidden, batch.attention_mask)
        outputs.append(logits)
        shares = logits.double().softmax(dim=1)
        entropy = -(shares * shares.log()).sum(dim=1)
        for row in range(len(rows)):
            if m < exits[row] == len(layers) and entropy[row] < threshold:
                exits[row] = m
    return exits, outputs


def test_exported_layers_exit_as_the_network_does(tmp_path: Path) -> None:
    model = model_of(tmp_path, depth=2)
    files = export_segments(model, tmp_path / "pieces")
    assert [file.name for file in files] == ["embed.pt2", "layer-1.pt2", "layer-2.pt2"]
    record = json.loads((tmp_path / "pieces" / "segments.json").read_text())
    assert record["weights"] == model.fingerprint()
    pieces = [torch.export.load(file).module() for file in files]
    # A piece holds its own weights and no others.
    sizes = [sum(value.numel() for value in piece.state_dict().values()) for piece in pieces]
    whole = sum(value.numel() for value in model.exit_state().values())
    assert sum(sizes) == whole
    classifier = EarlyExitClassifier(model, REGISTRY.make("deebert"), 0.4)
    seen = set()
    for count, seed in ((1, 0), (2, 3), (17, 5)):
        rows = classifier.tokens(texts(count, seed=seed, longest=12))
        batch = rows.batch(range(count))
        exits, outputs = run_pieces(pieces, rows, 0.4)
        with torch.no_grad():
            assert torch.equal(torch.stack(outputs), model(batch).logits)
        assert exits == [answer.exit_layer for answer in classifier.answers(rows, batch_size=count)]
        seen |= set(exits)
    assert seen == {1, 2}
