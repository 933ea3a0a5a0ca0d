"""Networks of a user's own: the cache holds what the function's network says, with its widths, costs and outputs."""

import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoModelForSequenceClassification, BertConfig

from exitbench.cache import Cache, Task, head_algebra, verify
from exitbench.errors import InputError
from exitbench.models import Network
from exitbench.models.own_network.collect_network import collect_network
from exitbench.models.own_network.loading import load_network, network_function
from tests.support.command_line import exit_code

ROWS, CLASSES = 11, ("red", "green", "blue")

CNN = """
import torch
from torch import nn
from exitbench.models import Network

class TwoBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, padding=1)])
        self.heads = nn.ModuleList([nn.Linear(4, 3), nn.Linear(6, 3)])
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm2d(4)

    def exits(self, image):
        for block, head in zip(self.blocks, self.heads):
            image = torch.relu(block(image))
            image = self.norm(image) if image.shape[1] == 4 else image
            features = self.dropout(image.mean(dim=(2, 3)))
            yield head(features), features, {"spread": features.std(dim=1), "extremes": features.sort(dim=1)[0][:, ::3]}

def images(split):
    generator = torch.Generator().manual_seed(len(split))
    return torch.randn(11, 1, 8, 8, generator=generator)

def network(split):
    torch.manual_seed(0)
    model = TwoBlocks()
    rows = images(split)
    return Network(
        exits=model.exits, batch=lambda numbers: rows[list(numbers)], classes=("red", "green", "blue"),
        labels=[number % 3 for number in range(11)], ids=range(100, 111), groups=[number // 2 for number in range(11)],
        heads=list(model.heads), module=model,
    )

not_callable = 3

def broken(split):
    raise KeyError(split)

def something_else(split):
    return {"logits": None}
"""


@pytest.fixture(scope="module")
def cnn(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("networks") / "two_blocks.py"
    path.write_text(CNN, encoding="utf-8")
    return path


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


def collected(network: Network, out: Path, **options: Any) -> Cache:
    collect_network(network, Task("colours", CLASSES), "dev", out, name="plain", **options)
    return Cache(out)


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


LOGITS, FEATURES = torch.randn(ROWS, 3), torch.randn(ROWS, 5)


def two_exits(**changes: Any) -> Network:
    """Two exits of random numbers, or what ``answers`` lists."""
    answers = changes.pop("answers", [(LOGITS, FEATURES), (LOGITS, FEATURES)])
    fields = {"labels": [0] * ROWS, "classes": CLASSES, "batch": lambda rows: rows}
    return Network(exits=lambda rows: answers, **{**fields, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"answers": [(FEATURES, None)]}, r"logits at exit 1 of shape \[11, 3\], found \[11, 5\]"),
        ({"answers": [(LOGITS[0], None)]}, r"logits at exit 1 of shape \[11, 3\], found \[3\]"),
        ({"answers": [LOGITS]}, r"a tuple \(logits, features\).* at exit 1, found a Tensor"),
        ({"answers": torch.stack([LOGITS, LOGITS])}, "the exits one after another, found a Tensor"),
        ({"answers": 3}, "the exits one after another, found a int"),
        ({"answers": [(LOGITS, None)]}, "at least two exits, found 1"),
        ({"answers": [(LOGITS, FEATURES[..., None])]}, r"features at exit 1 of shape \[11, width\]"),
        ({"answers": [(LOGITS.long(), None)]}, "logits at exit 1 as a .* numbers, found a tensor of torch.int64"),
        ({"answers": [(LOGITS, [1.0])]}, "features at exit 1 as a tensor of real numbers, found a list"),
        ({"answers": [(LOGITS, None, [1])]}, "outputs by name at exit 1, found a list"),
        ({"answers": [(LOGITS, None, {"p": LOGITS[0]})]}, r"output p at exit 1 of shape \[11\]"),
        ({"answers": [(LOGITS, FEATURES), (LOGITS, None)]}, "features at every exit or at none, found none at exit 2"),
        (
            {"answers": [(LOGITS, None)] * 2, "heads": [nn.Linear(5, 3)] * 2},
            "the features that head 1 reads, found none",
        ),
        ({"heads": [nn.Linear(5, 3)]}, "2 heads, one for each exit, found 1"),
        ({"heads": [nn.Linear(4, 3)] * 2}, r"head 1 of weight \[3, 5\] and bias \[3\], found \[3, 4\]"),
        ({"heads": [nn.Linear(5, 3, bias=False)] * 2}, r"the logits W x \+ b of head 1 at exit 1, found them"),
        ({"heads": ["head"] * 2}, r"head 1 as \(weight, bias\) or nn.Linear, found a str"),
        ({"ids": [1, 2]}, "11 ids, one for each row, found 2"),
        ({"ids": ["a"] * 11}, "whole numbers of 64 bits as ids, found others"),
        ({"groups": [2**70] * 11}, "whole numbers of 64 bits as groups, found others"),
        ({"labels": [None] * 11}, "whole numbers of 64 bits as labels, found others"),
        ({"labels": None}, "labels, or rows with the number of unlabelled rows, found neither"),
        ({"rows": 12}, "12 labels, as rows says, found 11"),
        ({"labels": []}, "at least one row, found none"),
    ],
)
def test_a_wrong_form_is_one_line_that_names_the_exit(changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=f"^nets.py:f: expected {message}"):
        collected(two_exits(**changes), tmp_path / "cache", reference="nets.py:f")
    assert not (tmp_path / "cache").exists()


A, B, C = torch.ones(3, 3), torch.ones(3, 4), torch.ones(3)


@pytest.mark.parametrize(
    ("later", "message"),
    [
        ([(A, B, {"p": C})], "expected 2 exits, as in the first batch, found 1"),
        ([(A, torch.ones(3, 7), {"p": C})] * 2, "expected features of width 4 at exit 1, found 7"),
        ([(A, B, {"p": A})] * 2, r"outputs p \[n\] at exit 1, found p \[n, 3\]"),
        ([(A, B)] * 2, r"outputs p \[n\] at exit 1, found none"),
    ],
)
def test_a_later_batch_has_the_form_of_the_first(later: list[Any], message: str, tmp_path: Path) -> None:
    first = [(torch.ones(8, 3), torch.ones(8, 4), {"p": torch.ones(8)})] * 2
    network = Network(lambda rows: first if len(rows) == 8 else later, lambda rows: rows, CLASSES, labels=[0] * ROWS)
    with pytest.raises(InputError, match=message):
        collected(network, tmp_path / "cache", batch_size=8)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        ("two_blocks.py", "expected --network FILE.py:function or package.module:function, found"),
        ("nowhere.py:network", "expected a Python file at .*nowhere.py, found no such file"),
        ("two_blocks.py:netwrok", "expected a function 'netwrok' in .*, found none. Did you mean network?"),
        ("two_blocks.py:not_callable", "expected a function 'not_callable' in .*, found a int"),
        ("two_blocks.py:broken", "two_blocks.py:broken: KeyError: 'dev'"),
        ("two_blocks.py:something_else", "expected a Network from exitbench.models, found a dict"),
        ("no.such.module:network", "no.such.module:network: ModuleNotFoundError: No module named 'no'"),
    ],
)
def test_what_cannot_be_called_is_one_line(reference: str, message: str, cnn: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(cnn.parent)
    with pytest.raises(InputError, match=message):
        load_network(reference, "dev")


def test_an_installed_module_is_found_by_its_name(cnn: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(cnn.parent)
    assert network_function("two_blocks:network")("dev").classes == CLASSES
    monkeypatch.delitem(sys.modules, "two_blocks")


def test_the_files_beside_a_file_can_be_imported_only_while_it_loads(tmp_path: Path) -> None:
    (tmp_path / "beside_it.py").write_text("classes = ('a', 'b')\n", encoding="utf-8")
    (tmp_path / "nets.py").write_text("import beside_it\ndef f(split): return beside_it.classes\n", encoding="utf-8")
    before = list(sys.path)
    assert network_function(f"{tmp_path / 'nets.py'}:f")("dev") == ("a", "b")
    assert sys.path == before
    del sys.modules["beside_it"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--network", "nets.py:f", "--model", "m"], "without --model; found both"),
        (["--network", "nets.py:f", "--id", "number"], "without --id; found both"),
        (["--network", "nets.py:f", "--data-dir", "d"], "without --data-dir; found both"),
        (["--network", "nets.py:f"], "expected --task with the name of the task beside --network"),
        ([], "expected --model with a folder made by `exitbench train`, or --network, found neither"),
        (["--network", "NETS:network", "--task", "t", "--features", "half"], "expected --features float16"),
        (["--network", "NETS:network", "--task", "t", "--role", "tset"], "Did you mean test?"),
    ],
)  # fmt: skip
def test_options_that_do_not_go_together_are_refused(
    words: list[str], message: str, cnn: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [word.replace("NETS", str(cnn)) for word in words]
    assert exit_code("collect", *given, "--out", tmp_path / "cache") == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


GUIDE = Path(__file__).parents[3] / "docs" / "collecting.md"
FILES = re.findall(r"```py\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize(
    ("number", "reference", "layers"), [(0, "classifier.py:bert", 3), (1, "vision.py:four_stages", 4)]
)
def test_the_files_of_the_guide_make_caches_with_rising_costs(
    number: int, reference: str, layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "torchvision" in FILES[number]:
        pytest.importorskip("torchvision", reason="torchvision is not a dependency of exitbench")
    monkeypatch.chdir(tmp_path)
    (tmp_path / reference.partition(":")[0]).write_text(FILES[number], encoding="utf-8")
    assert exit_code("collect", "--network", reference, "--task", "sst2", "--split", "dev", "--out", "cache") == 0
    manifest = Cache("cache").manifest
    assert verify("cache") == []
    assert manifest.costs is not None
    steps = [later - earlier for earlier, later in zip((0.0, *manifest.costs), manifest.costs, strict=False)]
    assert (len(steps), manifest.cost_unit) == (layers, "operations")
    assert min(steps) > 0


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
