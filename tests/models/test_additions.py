"""What recipes add to a network: saved, loaded, collected, run live and counted."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from exitbench.benchmarks.scoring.calibration_layers import cannot_run
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.models import (
    EarlyExitClassifier,
    MultiExitConfig,
    MultiExitModel,
    TokenBatch,
    continuous_answers,
    export_segments,
)
from exitbench.models.network.additions.registry import ADDITIONS
from exitbench.models.network.sizes import parameter_counts
from exitbench.models.timing import plain_answer
from exitbench.models.training.learning_rates import TrainingOptions
from exitbench.models.training.recipe_registry import load_recipes
from tests.support.command_line import exit_code
from tests.support.for_each import for_each
from tests.support.live_models import REGISTRY, gaps, literal_exits
from tests.support.tiny_models import save_backbone, tiny_backbone, token_batch
from tests.support.trainings import new_model, new_training

RECIPES = load_recipes()
ADDING = [name for name in sorted(RECIPES.classes) if RECIPES.make(name).addition]
CLASSES = ("a", "b", "c")


@pytest.fixture(scope="module", params=ADDING)
def trained(
    request: pytest.FixtureRequest, encoder: Path, reviews: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A folder named after its recipe, with a network trained for some steps and its cache, both by the program."""
    folder = tmp_path_factory.mktemp("added") / str(request.param)
    options = TrainingOptions(epochs=1, batch_size=32, learning_rate=1e-3, head_learning_rate=1e-2)
    assert new_training(encoder, reviews, folder / "model", options, recipe=request.param).run().finished
    words = "collect", "--model", folder / "model", "--task", "sst2", "--data-dir", reviews, "--out", folder / "cache"
    assert exit_code(*words, "--device", "cpu", "--features", "float32") == 0
    return folder


def network(addition: str, seed: int = 0) -> MultiExitModel:
    torch.manual_seed(seed)
    return MultiExitModel(tiny_backbone("bert", depth=3), MultiExitConfig(CLASSES, "mean", "shared", addition=addition))


def test_every_addition_belongs_to_a_recipe() -> None:
    assert {RECIPES.make(name).addition.partition("[")[0] for name in ADDING} == set(ADDITIONS)


@pytest.mark.long
def test_a_cache_holds_what_the_loaded_network_says(trained: Path, reviews: Path) -> None:
    model, cache = MultiExitModel.from_pretrained(trained / "model"), Cache(trained / "cache")
    assert model.config.addition == RECIPES.make(trained.name).addition
    assert {output.name for output in cache.manifest.outputs} == set(model.added.outputs)
    assert cache.has_heads == cache.has_offset_norms == model.added.linear
    for name in ("nsp", "cap"):
        why = cannot_run(cache, REGISTRY.make(name))
        if trained.name != "past-future":
            assert why == cache.manifest.no_heads == "", "linear exits have heads"
        else:
            assert why == (
                f"signal {REGISTRY.make(name).text} reads heads and offset norms, which cache cache does not hold (a "
                "past-future exit mixes the states of all layers through a gate, which is not linear in the features)"
            )
    assert exit_code("verify", trained / "cache") == 0
    classifier = EarlyExitClassifier(model, REGISTRY.make("deebert"), 0.0)
    tokens = classifier.tokens([line.split("\t")[0] for line in (reviews / "dev.tsv").read_text().splitlines()[1:]])
    for row in range(0, len(tokens), 9):
        with torch.no_grad():
            exits = model(tokens.batch([row]))
        for m in range(1, 4):
            torch.testing.assert_close(cache.logits(m)[row], exits.logits[m - 1, 0], atol=1e-5, rtol=0)
            for name in model.added.outputs:
                said = torch.as_tensor(cache.output(name, m)[row])
                torch.testing.assert_close(said, exits.outputs[name][m - 1, 0], atol=1e-5, rtol=1e-5)
        assert int(plain_answer(model, tokens.batch([row]))[0]) == int(exits.logits[-1, 0].argmax())


@pytest.mark.long
def test_a_card_says_how_a_network_was_trained_and_why_it_has_no_heads(
    trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code("inspect", trained / "cache") == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines() if " " in line.strip())
    assert shown["recipe"].strip() == trained.name
    curved = trained.name == "past-future"
    assert shown["heads"].startswith("none: a past-future exit mixes the states" if curved else "yes")


@pytest.mark.long
def test_live_exits_are_those_of_the_replay(trained: Path, reviews: Path) -> None:
    model, cache = MultiExitModel.from_pretrained(trained / "model"), Cache(trained / "cache")
    signal = REGISTRY.make(RECIPES.make(trained.name).exit_rule)
    scores = score(cache, signal)
    threshold = gaps(scores, signal, cache.layers)[-1]
    expected = literal_exits(scores, signal, threshold)
    assert len(set(expected)) > 1
    classifier = EarlyExitClassifier(model, signal, threshold)
    tokens = classifier.tokens([line.split("\t")[0] for line in (reviews / "dev.tsv").read_text().splitlines()[1:]])
    predictions = cache.predictions()
    runs = [classifier.answers(tokens, batch_size=size) for size in (1, 16)]
    runs.append(list(continuous_answers(classifier, tokens, batch_size=8, in_flight=11)))
    for answers in runs:
        assert [answer.exit_layer for answer in answers] == expected
        said = [answer.class_index for answer in answers]
        assert said == predictions[np.array(expected) - 1, np.arange(len(expected))].tolist()


@pytest.mark.long
def test_thresholds_policies_and_costs_know_the_addition(
    trained: Path, reviews: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rule, text = RECIPES.make(trained.name).exit_rule, tmp_path / "texts.txt"
    text.write_text("a good film\na bad film\n")
    if rule == "pabee":  # patience has few operating points in three layers
        rule = "deebert"
    policy = tmp_path / "policy.json"
    assert exit_code("threshold", trained / "cache", "--signal", rule, "--speed-up", "1.2", "--out", policy) == 0
    assert exit_code("infer", "--model", trained / "model", "--policy", policy, text, "--device", "cpu") == 0
    words = ["infer", "--model", trained / "model", "--signal", rule, "--calibrate", trained / "cache"]
    assert exit_code(*words, "--speed-up", "1.2", text, "--device", "cpu") == 0
    assert exit_code("cost", "--model", trained / "model", "--out", tmp_path / "cost") == 0
    counts = parameter_counts(MultiExitModel.from_pretrained(trained / "model"))
    stored = json.loads((tmp_path / "cost" / "cost.json").read_text())
    assert counts["added"] > 0
    assert [row["parameters"] for row in stored["parameters"] if row["part"] == "counted_added"] == [counts["added"]]
    assert [row["published_convention"] > 0 for row in stored["operations"] if row["module"] == "added"] == [True]


# -- formulas ------------------------------------------------------------------------------------


@torch.no_grad()
def test_hazards_add_up_to_the_probability_of_having_left() -> None:
    model = network("hazard[blocks=1]").eval()
    ids, mask, types = token_batch()
    features, logits, said = model(TokenBatch(ids, mask, types))
    before, left = torch.zeros(5, 16), torch.zeros(5)
    added = model.added
    for m in range(3):
        block = added.get_submodule("blocks.0")
        inner = torch.tanh(block(torch.cat([features[m], before], dim=1)))
        hazard = torch.sigmoid(added.get_submodule("unit")(inner)).squeeze(1)
        left = left + hazard * (1 - left)
        torch.testing.assert_close(torch.sigmoid(said["hazard"][m]), hazard)
        torch.testing.assert_close(said["ponder"][m], left)
        torch.testing.assert_close(logits[m], features[m] @ model.head(1).weight.T + model.head(1).bias)
        before = features[m]
    assert len(model.heads) == 1


@torch.no_grad()
def test_adapters_read_the_attention_and_feed_their_exit_alone() -> None:
    model = network("adapters[bottleneck=4,scale=8]").eval()
    ids, mask, types = token_batch()
    batch = TokenBatch(ids, mask, types)
    states = model.backbone(
        input_ids=ids, attention_mask=mask, token_type_ids=types, output_hidden_states=True
    ).hidden_states
    features, logits, _ = model(batch)
    context = model.start(batch)[1]

    def exit_feature(m: int, hidden: Tensor) -> Tensor:
        norm = model.added.get_submodule(f"batch_norms.{m - 1}")
        return nn.functional.normalize(norm(model.pool(m, hidden, context)), dim=1)

    for m in (1, 2):
        layer = model.backbone.encoder.layer[m - 1]
        attended = layer.attention(states[m - 1], context.mask)[0]
        fed = layer.output.dense(layer.intermediate(attended))
        down, up, norm = (model.added.get_submodule(f"{part}.{m - 1}") for part in ("down", "up", "norms"))
        side = norm(attended + fed + 8 * up(torch.relu(down(attended))))
        torch.testing.assert_close(features[m - 1], exit_feature(m, side), atol=1e-5, rtol=0)
    torch.testing.assert_close(features[2], exit_feature(3, states[3]), atol=1e-5, rtol=0)
    weight = model.head(2).weight
    torch.testing.assert_close(weight @ weight.T, torch.eye(3) * 1.5 - 0.5, atol=1e-6, rtol=0)
    torch.testing.assert_close(logits[1], features[1] @ weight.T)


def test_a_single_row_is_normalised_as_outside_training() -> None:
    model = network("adapters").train()
    ids, mask, types = token_batch()
    assert model(TokenBatch(ids[:1], mask[:1], types[:1])).logits.isfinite().all()


def test_a_past_state_teaches_the_network_only_at_its_own_exit() -> None:
    model = network("past-future")
    model.dropout.p = 0.0
    ids, mask, types = token_batch()
    batch = TokenBatch(ids, mask, types)
    together = model.eval()(batch).logits
    model.train()
    model.backbone.eval()
    exits = model(batch)
    torch.testing.assert_close(exits.logits, together)
    assert exits.outputs["imitation"].shape == (2, 5)
    (maps,) = torch.autograd.grad(exits.logits[2].sum(), model.added.get_parameter("maps.answer"))
    assert bool((maps[0] != 0).any()), "a later exit teaches the map of an earlier state"
    # With the way through the layers above cut, only the remembered states are left.
    weight = model.backbone.encoder.layer[0].output.dense.weight
    cut = model(batch, ((1.0, 0.0),) * 3).logits
    assert not torch.autograd.grad(cut[2].sum(), weight, retain_graph=True)[0].any()
    assert torch.autograd.grad(cut[0].sum(), weight)[0].any()


# -- refusals ------------------------------------------------------------------------------------


@for_each(
    case=[
        ("hazrd", "unknown addition 'hazrd'. Did you mean hazard?"),
        ("hazard[blocks=-1]", "addition hazard: blocks must be a whole number, at least 0"),
        ("hazard[blocks=1|2]", "expected one addition, found a grid of 2"),
        ("adapters[bottleneck=0]", "addition adapters: bottleneck must be"),
    ]
)
def test_a_wrong_addition_in_a_configuration_is_one_line(case: tuple[str, str]) -> None:
    with pytest.raises(InputError) as refused:
        network(case[0])
    assert case[1] in str(refused.value)


def test_what_a_network_cannot_do_is_said(tmp_path: Path, encoder: Path, reviews: Path) -> None:
    curved, plain = network("past-future"), network("")
    with pytest.raises(
        InputError, match=r"signal nsp reads linear heads, .* are not linear \(a past-future exit mixes"
    ):
        EarlyExitClassifier(curved, REGISTRY.make("nsp"), 0.5)
    with pytest.raises(InputError, match="reads the output 'lte', which a cache may hold; this network has no outputs"):
        EarlyExitClassifier(plain, REGISTRY.make("output"), 0.5)
    with pytest.raises(InputError, match="expected a network of linear heads alone to export, found one with lte"):
        export_segments(network("lte"), tmp_path / "segments")
    with pytest.raises(InputError, match="expected a network with 'lte' added for the recipe lte, found ''"):
        new_training(encoder, reviews, tmp_path / "model", recipe="lte", model=new_model(encoder))
    albert = save_backbone(tmp_path / "albert", "albert")
    with pytest.raises(InputError, match="adapters needs layers of attention, feed-forward and norm, found albert"):
        MultiExitModel.from_backbone(albert, MultiExitConfig(CLASSES, addition="adapters"))
