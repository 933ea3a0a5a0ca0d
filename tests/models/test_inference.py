"""Live inference: the same exits as the replay of a cache, with the later layers really not computed."""

import dataclasses
import math
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
import torch

from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache, synthetic_cache
from exitbench.errors import InputError
from exitbench.models import EarlyExitClassifier, MultiExitModel
from exitbench.models.network.same_model import require_same_model
from exitbench.signals import ExitSignal, Layer, Reference, State
from tests.support.live_models import (
    NOISE,
    REGISTRY,
    ROWS,
    Collected,
    collected,
    gaps,
    model_of,
    texts,
)
from tests.support.tiny_models import save_backbone

pytestmark = pytest.mark.long


@pytest.fixture(scope="module", params=[2, 3], ids=["two classes", "three classes"])
def source(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Collected:
    return collected(tmp_path_factory.mktemp("inference"), classes=request.param)


@pytest.mark.parametrize("batch_size", [1, 8])
def test_a_layer_runs_only_for_the_samples_that_are_still_there(source: Collected, batch_size: int) -> None:
    signal = REGISTRY.make("cap")
    threshold = gaps(score(source.cache, signal), signal, source.cache.layers)[-1]
    ran = [0] * source.model.depth
    hooks = []
    for index, layer in enumerate(source.model.backbone.encoder.layer):

        def count(module: Any, inputs: tuple[torch.Tensor, ...], at: int = index) -> None:
            ran[at] += len(inputs[0])

        hooks.append(layer.register_forward_pre_hook(count))
    try:
        live = EarlyExitClassifier(source.model, signal, threshold).answers(source.tokens, batch_size=batch_size)
    finally:
        for hook in hooks:
            hook.remove()
    assert ran == [sum(answer.exit_layer >= m for answer in live) for m in range(1, source.model.depth + 1)]
    assert ran[-1] < ROWS


@dataclass(frozen=True)
class Stranger(ExitSignal):
    """A signal of somebody's own with a memory of every allowed shape; it reads the features too."""

    name: ClassVar[str] = "stranger"
    title: ClassVar[str] = "Stranger"
    reference: ClassVar[Reference] = Reference("none", 2026, "https://example.org")
    exits_when: ClassVar[Any] = ">"
    inputs: ClassVar[frozenset[Any]] = frozenset({"features", "ids"})

    def step(self, layer: Layer, state: State) -> tuple[torch.Tensor, State]:
        assert layer.features is not None and layer.head is None and layer.offset_norm is None
        size = layer.features.double().norm(dim=1)
        if state is not None:
            assert torch.equal(state["ids"][0], layer.ids), "the memory belongs to other samples"
            size = size + state["sizes"][0][1]
        return size, {"ids": [layer.ids], "sizes": ((layer.ids, size),)}


def test_a_signal_nobody_knows_runs_live_with_its_memory_in_step(source: Collected) -> None:
    tokens, model = source.tokens, source.model
    never = EarlyExitClassifier(model, Stranger(), math.inf).answers(tokens)
    assert {answer.exit_layer for answer in never} == {model.depth}
    sizes = EarlyExitClassifier(model, Stranger(), -math.inf).answers(tokens)
    assert {answer.exit_layer for answer in sizes} == {1}
    ordered = np.sort([answer.score for answer in sizes if answer.score is not None])
    middle = int(np.diff(ordered).argmax())
    threshold = float(ordered[middle : middle + 2].mean())
    for batch_size in (1, 32):
        live = EarlyExitClassifier(model, Stranger(), threshold).answers(tokens, batch_size=batch_size)
        exits_expected = [1 if answer.score is not None and answer.score > threshold else 2 for answer in sizes]
        assert [answer.exit_layer for answer in live] == exits_expected
        assert set(exits_expected) == {1, 2}


def test_ids_reach_the_signal_whatever_the_order_of_batches(source: Collected) -> None:
    live = EarlyExitClassifier(source.model, REGISTRY.make("random"), 0.8)
    words = texts(20)
    whole = live.predict(words, batch_size=7)
    parts = live.predict(words[:9], batch_size=2) + live.predict(words[9:], batch_size=4, first_id=9)
    assert [(answer.id, answer.exit_layer) for answer in whole] == [(answer.id, answer.exit_layer) for answer in parts]


def test_several_threads_get_the_answers_of_one(source: Collected) -> None:
    live = EarlyExitClassifier(source.model, REGISTRY.make("deebert"), 0.4)
    # Long texts are cut, which is where a shared tokenizer would be changed by two threads at once.
    parts = [texts(12, seed=number, longest=40) for number in range(24)]
    alone = [live.predict(part, batch_size=4) for part in parts]
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda part: live.predict(part, batch_size=4), parts))
    for expected, concurrent in zip(alone, together, strict=True):
        for answer, other in zip(expected, concurrent, strict=True):
            assert dataclasses.replace(answer, score=None) == dataclasses.replace(other, score=None)
            assert answer.score == pytest.approx(other.score, abs=NOISE, nan_ok=True)


def test_warming_up_runs_every_layer_though_the_threshold_would_leave_at_once(source: Collected) -> None:
    live = EarlyExitClassifier(source.model, REGISTRY.make("deebert"), math.inf)
    seen: list[tuple[int, ...]] = []
    hook = source.model.backbone.encoder.layer[-1].register_forward_pre_hook(
        lambda module, inputs: seen.append(tuple(inputs[0].shape[:2]))
    )
    try:
        live.warm_up(samples=3)
    finally:
        hook.remove()
    assert seen == [(3, source.model.config.max_length)]
    assert {answer.exit_layer for answer in live.predict(texts(5))} == {1}


def test_a_model_from_disk_answers_like_the_one_in_memory(source: Collected, tmp_path: Path) -> None:
    source.model.save_pretrained(tmp_path / "model")
    signal = REGISTRY.make("cap[alpha=0.1]")
    live = EarlyExitClassifier.from_pretrained(tmp_path / "model", "cap[alpha=0.1]", 0.3, device="cpu")
    assert live.predict(texts(9)) == EarlyExitClassifier(source.model, signal, 0.3).predict(texts(9))


@pytest.mark.parametrize(
    ("text", "threshold", "message"),
    [
        ("right-tool[temperature=fitted]", 0.9, "learns from labelled samples"),
        ("pcee[patience=9]", 0.1, "exits at layer 9 at the earliest, found a model of 6 layers"),
        ("pabee", 2.5, r"expected a whole threshold 1\.\.4 for pabee in a model of 6 layers, found 2\.5"),
        ("pabee", 5, "expected a whole threshold"),
        ("cap", math.nan, "expected a number as threshold of cap, found nan"),
    ],
)
def test_a_signal_that_cannot_run_is_refused_at_once(
    text: str, threshold: float, message: str, source: Collected
) -> None:
    with pytest.raises(InputError, match=message):
        EarlyExitClassifier(source.model, REGISTRY.make(text), threshold)


def test_a_signal_without_a_meaning_in_this_network_is_refused_at_once(source: Collected) -> None:
    with pytest.raises(InputError, match=r"one pooler or none \(none or shared\), .* 'per-layer'"):
        EarlyExitClassifier(source.model, REGISTRY.make("saturation"), 0.9)


def test_texts_and_second_texts_must_pair_up(source: Collected) -> None:
    live = EarlyExitClassifier(source.model, REGISTRY.make("cap"), 0.2)
    with pytest.raises(InputError, match="as many second texts as texts, found 1 and 2"):
        live.predict(["good", "bad"], ["film"])


def test_a_signal_that_gives_nan_is_named(source: Collected) -> None:
    @dataclass(frozen=True)
    class Faulty(Stranger):
        def step(self, layer: Layer, state: State) -> tuple[torch.Tensor, State]:
            return layer.no_score(), None

    with pytest.raises(InputError, match="signal stranger at layer 1: expected a finite score"):
        EarlyExitClassifier(source.model, Faulty(), 0.2).predict(["good"])


def test_a_cache_of_this_model_is_known_and_one_of_another_is_told_apart(source: Collected, tmp_path: Path) -> None:
    require_same_model(source.model, source.cache)
    other = MultiExitModel.from_backbone(
        save_backbone(tmp_path / "other", depth=6), dataclasses.replace(source.model.config), seed=2
    )
    with pytest.raises(InputError, match="weights of the heads differ in 6 of 6 layers, first in layer 1, by up to"):
        require_same_model(other, source.cache)
    nearly = MultiExitModel.from_backbone(tmp_path / "other", source.model.config, seed=1)
    nearly.heads.load_state_dict(source.model.heads.state_dict())
    require_same_model(nearly, source.cache)
    with torch.no_grad():
        nearly.head(4).bias[1] += 1e-6
    with pytest.raises(InputError, match="biases of the heads differ in 1 of 6 layers, first in layer 4"):
        require_same_model(nearly, source.cache)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ({"layers": 12}, "with layers 6, found 12"),
        ({"layers": 6, "width": 8}, "with width 16, found 8"),
        ({"layers": 6, "width": 16, "classes": 4}, "with classes"),
    ],
)
def test_a_cache_of_another_shape_is_refused(
    shape: dict[str, int], message: str, source: Collected, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message):
        require_same_model(source.model, Cache(synthetic_cache(tmp_path / "cache", rows=20, **shape)))


def test_the_python_example_of_the_page_runs(
    source: Collected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "live-inference.md").read_text(encoding="utf-8")
    examples = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    source.model.save_pretrained(tmp_path / "my-model")
    monkeypatch.chdir(tmp_path)
    first, *others = examples
    exec(compile(first, "live-inference.md", "exec"), {})
    for other in others:  # services and exports have tests of their own: here, that what they import is there
        compile(other, "live-inference.md", "exec")
        exec("\n".join(line for line in other.splitlines() if line.startswith("from ")), {})
    assert len(capsys.readouterr().out.splitlines()) == 2


@pytest.mark.parametrize("tensor", ["logits", "features", "head.bias"])
def test_a_signal_that_writes_into_what_it_is_given_is_named_and_leaves_the_next_call_clean(
    tensor: str, tmp_path: Path
) -> None:
    @dataclass(frozen=True)
    class Vandal(type(REGISTRY.make("deebert"))):  # type: ignore[misc]
        name: ClassVar[str] = "vandal"
        inputs: ClassVar = frozenset({"logits", "features", "head"})

        def score(self, layer: Layer) -> torch.Tensor:
            scores = layer.entropy.clone()
            if layer.index == 2 and active:
                part: Any = layer
                for name in tensor.split("."):
                    part = getattr(part, name)
                part.zero_()
            return scores

    active = False
    classifier = EarlyExitClassifier(model_of(tmp_path), Vandal(), -math.inf, precision="float32")
    before = classifier.predict(texts(4))
    active = True
    with pytest.raises(InputError, match=f"signal vandal at layer 2 wrote into layer.{tensor}, which it may only read"):
        classifier.predict(texts(4))
    active = False
    assert classifier.predict(texts(4)) == before


def test_no_sample_exits_at_a_layer_whose_head_has_full_rank(tmp_path: Path) -> None:
    """Sixteen classes on sixteen features: NSP has no score anywhere, so every sample reaches the last layer."""
    model = model_of(tmp_path, classes=16, depth=3)
    classifier = EarlyExitClassifier(model, REGISTRY.make("nsp"), math.inf)
    assert {answer.exit_layer for answer in classifier.predict(texts(4))} == {3}
    with torch.no_grad():
        model.head(2).weight[1:] = 0.0  # rank 1: a null space of 15 dimensions
    classifier = EarlyExitClassifier(model, REGISTRY.make("nsp"), math.inf)
    assert {answer.exit_layer for answer in classifier.predict(texts(4))} == {2}
