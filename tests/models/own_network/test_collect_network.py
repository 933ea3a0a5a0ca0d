"""Networks of a user's own: the cache holds what the function's network says, with its widths, costs and outputs."""

import importlib
import re
import sys
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig, ResNetConfig, ResNetModel

from exitbench.benchmarks.scoring.calibration_layers import cannot_run
from exitbench.cache import Cache, head_algebra, verify
from exitbench.errors import InputError
from exitbench.models import Network
from exitbench.models.own_network.loading import load_network
from exitbench.signals.registry.discovery import load_registry
from tests.support.command_line import exit_code
from tests.support.own_networks import CLASSES, ROWS, collected


@pytest.mark.parametrize("features", ["float32", "none"])
def test_a_cnn_of_two_widths_becomes_a_cache_with_counted_costs(cnn: Path, tmp_path: Path, features: str) -> None:
    out, reference = tmp_path / "cache", f"{cnn}:network"
    words = ["--network", reference, "--task", "colours", "--split", "test", "--out", out, "--features", features]
    assert exit_code("collect", *words, "--batch-size", 4, "--shard-rows", 6, "--role", "calibration") == 0
    cache = Cache(out)
    assert list(verify(out)) == []
    network = load_network(reference, "test")
    assert network.module is not None
    network.module.eval()
    with torch.no_grad():
        answers = list(network.exits(network.batch(range(ROWS))))
    for layer, (logits, inputs, outputs) in enumerate(answers, 1):
        torch.testing.assert_close(cache.logits(layer), logits)
        torch.testing.assert_close(cache.output("spread", layer), outputs["spread"])
        torch.testing.assert_close(cache.output("extremes", layer), outputs["extremes"][:, :2])
        head = network.heads[layer - 1] if network.heads else None
        assert isinstance(head, nn.Linear)
        offset = head_algebra(head.weight.detach(), head.bias.detach()).offset.float()
        torch.testing.assert_close(cache.offset_norms(layer), (inputs + offset).norm(dim=1))
        if features != "none":
            torch.testing.assert_close(cache.features(layer), inputs)
    # Two operations for each product and sum: 64 pixels of 9 to 4, then 16 pixels of 36 to 6, and the heads.
    first = 2 * (64 * 9 * 4 + 4 * 3)
    manifest = cache.manifest
    assert manifest.costs == (first, first + 2 * (16 * 36 * 6 + 6 * 3))
    assert (manifest.cost_unit, manifest.widths, manifest.split_role) == ("operations", (4, 6), "calibration")
    assert cache.ids.tolist() == list(range(100, 111))
    assert cache.labels.tolist() == [number % 3 for number in range(ROWS)]
    assert (manifest.task.name, manifest.task.classes, manifest.model.name) == ("colours", CLASSES, "network")
    assert manifest.provenance.device == "cpu"


def test_another_split_is_the_functions_own_matter(cnn: Path) -> None:
    test, dev = (load_network(f"{cnn}:network", split) for split in ("test", "dev"))
    assert not torch.equal(test.batch([0]), dev.batch([0]))


def plain_classifier(**changes: Any) -> Network:
    """A library classifier without exits: one head, that of the last layer, reads every layer's first token."""
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=40, hidden_size=8, num_hidden_layers=3, num_attention_heads=2, intermediate_size=16, num_labels=3
    )
    model = AutoModelForSequenceClassification.from_config(config)
    ids = torch.randint(5, 40, (ROWS, 6))

    def exits(batch: torch.Tensor) -> list[tuple[torch.Tensor, torch.Tensor]]:
        hidden = model(batch, output_hidden_states=True).hidden_states[1:]
        features = [model.bert.pooler(layer) for layer in hidden]
        return [(model.classifier(x), x) for x in features]

    fields = {"labels": torch.arange(ROWS) % 3, "heads": [model.classifier] * 3, "module": model}
    return Network(exits=exits, batch=lambda rows: ids[list(rows)], classes=CLASSES, **{**fields, **changes})


SHARDS = {"shard_rows": 4, "batch_size": 4}


@torch.no_grad()
def test_a_plain_library_classifier_ends_in_its_own_answer(tmp_path: Path) -> None:
    network = plain_classifier()
    cache = collected(network, tmp_path / "cache", features="float32", batch_size=3)
    assert network.module is not None
    own = network.module(network.batch(range(ROWS))).logits
    torch.testing.assert_close(cache.logits(3), own)
    assert list(verify(tmp_path / "cache")) == []
    # A list was computed before its first exit could be counted: equal steps.
    assert cache.manifest.costs is None
    assert (cache.layers, cache.manifest.model.width, cache.manifest.widths) == (3, 8, None)


def test_costs_of_ones_own_are_kept(tmp_path: Path) -> None:
    network = plain_classifier(costs=[1, 2.5, 7])
    assert collected(network, tmp_path / "cache").manifest.costs == (1.0, 2.5, 7.0)


def test_without_labels_right_is_what_the_last_exit_says(tmp_path: Path) -> None:
    network = plain_classifier(labels=None, rows=ROWS, heads=None)
    manifest = collected(network, tmp_path / "cache").manifest
    assert (manifest.labelled, manifest.target, manifest.rows, manifest.heads) == (False, "final", ROWS, None)


def test_a_network_without_heads_says_so_where_a_signal_needs_them(tmp_path: Path) -> None:
    nsp = load_registry().make("nsp")
    assert cannot_run(collected(plain_classifier(), tmp_path / "linear"), nsp) == ""
    assert cannot_run(collected(plain_classifier(heads=None), tmp_path / "curved"), nsp) == (
        "signal nsp reads heads and offset norms, which cache curved does not hold (the network gives none, which is "
        "right where its exits are not linear in the features)"
    )


@pytest.mark.long
def test_a_stopped_collection_goes_on_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    network = plain_classifier()
    collected(network, tmp_path / "whole", **SHARDS)
    calls = []

    def stops(rows: Any) -> Any:
        calls.append(rows)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return network.batch(rows)

    with pytest.raises(KeyboardInterrupt):
        collected(replace(network, batch=stops), tmp_path / "cut", **SHARDS)
    collected(network, tmp_path / "cut", **SHARDS)
    for path in (tmp_path / "whole").glob("*.safetensors"):
        assert path.read_bytes() == (tmp_path / "cut" / path.name).read_bytes()


def test_other_weights_do_not_go_on_with_it(tmp_path: Path) -> None:
    network = plain_classifier()

    def stops(rows: Any) -> Any:
        if rows[0]:
            raise KeyboardInterrupt
        return network.batch(rows)

    with pytest.raises(KeyboardInterrupt):
        collected(replace(network, batch=stops), tmp_path / "cut", **SHARDS)
    assert network.module is not None
    with torch.no_grad():
        next(network.module.parameters()).add_(1)
    with pytest.raises(InputError, match="cannot resume"):
        collected(network, tmp_path / "cut", **SHARDS)


GUIDE = Path(__file__).parents[3] / "docs" / "collecting.md"
FILES = re.findall(r"```py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("number", "reference", "layers"), [(0, "classifier.py:bert", 3), (1, "vision.py:four_stages", 4)]
)
def test_the_files_of_the_guide_make_caches_with_rising_costs(
    number: int, reference: str, layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "torchvision" in FILES[number]:
        library_resnet(monkeypatch)
    monkeypatch.chdir(tmp_path)
    (tmp_path / reference.partition(":")[0]).write_text(FILES[number], encoding="utf-8")
    assert exit_code("collect", "--network", reference, "--task", "sst2", "--split", "dev", "--out", "cache") == 0
    manifest = Cache("cache").manifest
    assert verify("cache") == []
    assert manifest.costs is not None
    steps = [later - earlier for earlier, later in zip((0.0, *manifest.costs), manifest.costs, strict=False)]
    assert (len(steps), manifest.cost_unit) == (layers, "operations")
    assert min(steps) > 0


def library_resnet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put the ResNet-18 of another library where the guide imports torchvision's: the same layers and shapes.

    The torchvision of the package index is built for CUDA and does not load beside a CPU build of torch; where it is
    installed all the same, transformers fails with it, so it is no dependency of the tests.
    """

    def resnet18(weights: object = None) -> nn.Module:
        sizes = {"embedding_size": 64, "hidden_sizes": [64, 128, 256, 512], "depths": [2, 2, 2, 2]}
        plain = ResNetModel(ResNetConfig(layer_type="basic", **sizes))
        first, network = plain.embedder.embedder, nn.Module()
        network.conv1, network.bn1, network.relu = first.convolution, first.normalization, first.activation
        network.maxpool = plain.embedder.pooler
        network.layer1, network.layer2, network.layer3, network.layer4 = plain.encoder.stages
        return network

    models = ModuleType("torchvision.models")
    models.resnet18 = resnet18  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torchvision", ModuleType("torchvision"))
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.parametrize("library", ["transformers", "torchvision"])
def test_the_stages_of_the_guides_resnet_cost_what_their_convolutions_do(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if library == "transformers":
        library_resnet(monkeypatch)
    elif not loads("torchvision.models"):
        pytest.skip("torchvision is not installed, or not built for this torch; the same network ran above")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "vision.py").write_text(FILES[1], encoding="utf-8")
    words = ["collect", "--network", "vision.py:four_stages", "--task", "digits", "--split", "dev", "--out", "cache"]
    assert exit_code(*words) == 0
    cache = Cache("cache")
    assert cache.manifest.widths == (64, 128, 256, 512) and verify("cache") == []

    def convolution(inside: int, outside: int, kernel: int, side: int) -> int:
        return 2 * inside * outside * kernel**2 * side**2

    steps = [convolution(3, 64, 7, 16) + 4 * convolution(64, 64, 3, 8) + 2 * 64 * 10]
    for width, side in ((128, 4), (256, 2), (512, 1)):
        # Two blocks of two; the first reads half the channels, and so does its shortcut.
        own = convolution(width // 2, width, 3, side) + convolution(width // 2, width, 1, side)
        steps.append(own + 3 * convolution(width, width, 3, side) + 2 * width * 10)
    assert cache.costs == tuple(np.cumsum(steps).astype(float))


def loads(module: str) -> bool:
    """Whether a module can be imported; one that was built for another torch raises a RuntimeError."""
    try:
        importlib.import_module(module)
    except (ImportError, RuntimeError):
        return False
    return True


def test_equal_layers_of_a_library_network_are_counted_as_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "classifier.py").write_text(FILES[0], encoding="utf-8")
    assert exit_code("collect", "--network", "classifier.py:bert", "--task", "sst2", "--out", "cache") == 0
    costs = Cache("cache").manifest.costs
    assert costs is not None
    # By hand, per text of 12 tokens and width 16: four square maps, two of the feed-forward part, attention, the pooler
    # and the classifier; two operations for each product and sum.
    layer = 2 * (12 * 16 * 16 * 4 + 12 * 16 * 32 * 2 + 2 * 12 * 12 * 16 + 16 * 16 + 16 * 2)
    assert costs == pytest.approx([layer, 2 * layer, 3 * layer])
