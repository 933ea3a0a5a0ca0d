"""Every recipe: its loss against plain numbers, resumed at any step, as two processes, and able to learn 64 rows."""

import json
import shutil
import signal
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from exitbench.errors import InputError
from exitbench.models.data.batches import training_batches
from exitbench.models.network.exit_outputs import ExitOutputs
from exitbench.models.recipes.cosee import ranking_loss
from exitbench.models.training import training
from exitbench.models.training.checkpoints import checkpoints_of, step_seed
from exitbench.models.training.layer_scores import right_answers
from exitbench.models.training.learning_rates import TrainingOptions, parameter_groups, rate_factor
from exitbench.models.training.opened_weights import open_for_training
from exitbench.models.training.recipe import Moment, RecipeState, TrainingRecipe, equilibrium
from exitbench.models.training.recipe_registry import load_recipes
from exitbench.signals import load_registry
from tests.support.command_line import exit_code
from tests.support.for_each import for_each
from tests.support.literal_losses import LITERAL, SHOWN
from tests.support.tiny_models import two_processes, write_reviews
from tests.support.trainings import (
    OPTIONS,
    alarming,
    assert_close_weights,
    assert_same_weights,
    new_model,
    new_training,
    split_tokens,
    weights,
)

RECIPES = load_recipes()
EVERY = sorted(RECIPES.classes)
ROWS, LAYERS = 40, 3


@pytest.fixture(scope="module")
def few(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three steps an epoch."""
    return write_reviews(tmp_path_factory.mktemp("few") / "SST-2", {"train": ROWS, "dev": 8})


# -- losses --------------------------------------------------------------------------------------


def moments(recipe: TrainingRecipe, samples: int) -> list[Moment]:
    """A step of every stage at the start, an odd step later, and one of the last epoch."""
    rows = torch.arange(samples) * 3
    stages = range(len(recipe.stages(LAYERS)))
    return [Moment(stage, step, 12, step // 4, 3, step % 4, rows) for stage in stages for step in (0, 5, 11)]


def known_state(recipe: TrainingRecipe) -> RecipeState:
    """What a recipe knows after stages in which every layer got one row of the batch wrong, and only that one."""
    state = recipe.start(LAYERS, ROWS)
    right = torch.ones(LAYERS, ROWS, dtype=torch.bool)
    for m in range(LAYERS):
        right[m, 3 * m] = False
    for number, stage in enumerate(recipe.stages(LAYERS)):
        if stage.asks:
            recipe.after_stage(number, right, state)
    return state


def test_every_recipe_is_written_out_in_plain_numbers() -> None:
    assert {text.partition("[")[0] for text in LITERAL} == set(EVERY)


@for_each(written=LITERAL)
def test_the_loss_is_the_published_formula(written: str) -> None:
    recipe = RECIPES.make(written)
    generator = torch.Generator().manual_seed(3)
    logits = 2 * torch.randn(LAYERS, 7, 3, generator=generator)
    labels = torch.randint(3, (7,), generator=generator)
    exits = ExitOutputs(torch.zeros(LAYERS, 7, 4), logits, SHOWN)
    for moment in moments(recipe, 7):
        state = known_state(recipe)
        expected = LITERAL[written](logits.tolist(), labels.tolist(), moment, state)
        torch.manual_seed(5)
        assert recipe.loss(exits, labels, moment, state).item() == pytest.approx(expected, rel=1e-5), moment


def test_what_teaches_is_not_taught() -> None:
    logits = torch.randn(LAYERS, 5, 3, generator=torch.Generator().manual_seed(0))
    labels = torch.zeros(5, dtype=torch.int64)
    exits = ExitOutputs(torch.zeros(LAYERS, 5, 4), logits.requires_grad_(), {})
    plain = torch.autograd.grad(RECIPES.make("sum").loss(exits, labels, moments(RECIPES.make("sum"), 5)[0], {}), logits)
    for written in ("self-distillation", "mutual[teachers=later]"):
        recipe = RECIPES.make(written)
        gradient = torch.autograd.grad(recipe.loss(exits, labels, moments(recipe, 5)[0], {}), logits)
        torch.testing.assert_close(gradient[0][-1], plain[0][-1])
        assert not torch.equal(gradient[0][0], plain[0][0])
    distilled = RECIPES.make("distilled")
    second = distilled.loss(exits, labels, moments(distilled, 5)[-1], {})
    assert torch.equal(torch.autograd.grad(second, logits)[0][-1], torch.zeros(5, 3))


def test_cosee_draws_between_the_ends_of_the_epoch_before() -> None:
    recipe = RECIPES.make("cosee")
    state = recipe.start(2, ROWS)
    shown = []
    for epoch in range(3):
        for step in range(2):
            logits = torch.full((2, 4, 2), float(epoch + step))
            moment = Moment(0, 2 * epoch + step, 6, epoch, 3, step, torch.arange(4))
            recipe.loss(ExitOutputs(torch.zeros(2, 4, 1), logits, {}), torch.zeros(4, dtype=torch.int64), moment, state)
        shown.append((-state["range"][0].item(), state["range"][1].item()))
    energy = [1 / (1 + 2 * torch.e ** float(value)) for value in range(3)]
    assert shown == [(0, 1), pytest.approx((energy[1], energy[0])), pytest.approx((energy[2], energy[1]))]


def test_a_layer_without_wrong_answers_has_no_part_in_the_ranking_loss() -> None:
    signal = torch.tensor([[0.1, 0.2, 0.3], [0.4, 0.5, 0.2]])
    right = torch.tensor([[True, True, True], [True, False, True]])
    assert ranking_loss(signal, right, 0.3).item() == pytest.approx(0.3 - 0.5 + 0.3)
    assert ranking_loss(signal[:1], right[:1], 0.3).item() == 0


def test_a_hard_row_is_one_that_its_own_part_got_wrong() -> None:
    recipe = RECIPES.make("difficulty-aware[folds=3]")
    state = recipe.start(2, 30)
    assert state["part"].bincount().tolist() == [10, 10, 10]
    for stage in range(3):
        # Only what a network has not seen counts: it is right there, and wrong everywhere else.
        recipe.after_stage(stage, (state["part"] == stage).expand(2, 30), state)
    assert not state["hard"].any()
    recipe.after_stage(1, torch.zeros(2, 30, dtype=torch.bool), state)
    assert torch.equal(state["hard"][0].bool(), state["part"] == 1)


# -- gradients between layers --------------------------------------------------------------------


def layer_gradients(encoder: Path, reviews: Path, recipe: str, scaled: bool) -> list[float]:
    """The gradient of a weight of each layer under a loss of the last two exits."""
    model = new_model(encoder)
    batch = split_tokens(model, reviews, "dev").batch(range(6))
    made = RECIPES.make(recipe)
    scales = made.gradient_scales(3, moments(made, 6)[0]) or equilibrium(3)
    logits = model(batch, scales if scaled else None).logits
    (logits[1].sum() + 3 * logits[2].sum()).backward()
    layers = model.backbone.encoder.layer
    return [float(layer.output.dense.weight.grad.abs().sum()) for layer in layers]


def test_a_detached_layer_learns_nothing_from_the_exits_above(encoder: Path, reviews: Path) -> None:
    plain = layer_gradients(encoder, reviews, "detached", scaled=False)
    detached = layer_gradients(encoder, reviews, "detached", scaled=True)
    assert min(plain) > 0
    assert detached[0] == 0
    assert detached[1] > 0
    assert detached[1] != pytest.approx(plain[1])
    assert detached[2] == pytest.approx(plain[2])


def test_gradient_equilibrium_averages_over_the_exits_above(encoder: Path, reviews: Path) -> None:
    """By hand for three layers: the last exit counts 1, 1/2 and 1/3 in layers 3, 2, 1, the second 1/2 and 1/3."""
    model = new_model(encoder)
    batch = split_tokens(model, reviews, "dev").batch(range(6))

    def gradients(exit_layer: int, scaled: bool) -> list[Tensor]:
        model.zero_grad()
        model(batch, equilibrium(3) if scaled else None).logits[exit_layer - 1].sum().backward()
        return [layer.output.dense.weight.grad.clone() for layer in model.backbone.encoder.layer[:exit_layer]]

    for exit_layer in (1, 2, 3):
        plain, scaled = gradients(exit_layer, scaled=False), gradients(exit_layer, scaled=True)
        for m, (before, after) in enumerate(zip(plain, scaled, strict=True), 1):
            torch.testing.assert_close(after, before / (3 - m + 1))


def test_the_first_layers_of_past_future_learn_later(encoder: Path, reviews: Path) -> None:
    """Each is cut off with a probability that falls from 1 at the first step to 0 at the end; the others never are."""
    recipe, torch_state = RECIPES.make("past-future[freeze=2]"), torch.get_rng_state()
    torch.manual_seed(0)
    for step, cut in ((0, 1.0), (25, 0.75), (75, 0.25), (99, 0.01)):
        moment = Moment(0, step, 100, 0, 1, step, torch.arange(2))
        drawn = [recipe.gradient_scales(4, moment) or () for _ in range(2000)]
        assert all(scales[2:] == ((1.0, 1.0),) * 2 for scales in drawn)
        for layer in (0, 1):
            assert {scales[layer] for scales in drawn} <= {(0.0, 0.0), (1.0, 1.0)}
            share = sum(scales[layer] == (0.0, 0.0) for scales in drawn) / len(drawn)
            assert share == pytest.approx(cut, abs=4 * (cut * (1 - cut) / 2000) ** 0.5)
    torch.set_rng_state(torch_state)
    # At the first step nothing below the third layer learns.
    assert layer_gradients(encoder, reviews, "past-future[freeze=2]", scaled=True)[:2] == [0, 0]
    assert layer_gradients(encoder, reviews, "past-future[freeze=2]", scaled=True)[2] > 0


WHOLE = {"backbone", "poolers.0", "poolers.1", "poolers.2", "heads.0", "heads.1", "heads.2"}
"""All of a network of three layers that is not added."""
TRAINED: dict[str, list[set[str]]] = {
    "lte": [WHOLE | {"added"}],
    "ponder": [WHOLE - {"heads.1", "heads.2"} | {"added"}],
    "policy": [WHOLE, {"added"}, WHOLE | {"added"}],
    "past-future": [WHOLE - {"heads.0", "heads.1", "heads.2"} | {"added"}],
    "disentangled": [{"backbone", "poolers.2", "added"}, {"poolers.0", "poolers.1", "added"}],
}
"""What learns in each stage of a recipe with modules; the fixed heads of ``disentangled`` never do."""


def test_what_learns_in_each_stage_of_a_recipe_with_modules(encoder: Path) -> None:
    assert TRAINED.keys() == {name for name in EVERY if RECIPES.make(name).addition}
    for name, expected in TRAINED.items():
        recipe = RECIPES.make(name)
        for pooler in ("per-layer", "shared"):
            model = new_model(encoder, pooler=pooler, addition=recipe.addition)
            stages = []
            for stage in recipe.stages(LAYERS):
                names = open_for_training(model, stage, freeze_embeddings=False)
                words = (name.split(".") for name in names)
                stages.append({".".join(part[:2]) if part[0] in ("poolers", "heads") else part[0] for part in words})
            if pooler == "shared":  # the one pooler learns with the backbone, because the last exit reads it
                poolers = {f"poolers.{m}" for m in range(LAYERS)}
                shared = [parts - poolers | ({"poolers.0"} if "backbone" in parts else set()) for parts in expected]
                assert stages == shared, name
            else:
                assert stages == expected, name


def test_a_recipe_with_its_own_gradients_refuses_the_switch(encoder: Path, few: Path, tmp_path: Path) -> None:
    options = TrainingOptions(epochs=1, gradient_equilibrium=True)
    with pytest.raises(InputError, match="recipe detached decides itself how gradients flow"):
        new_training(encoder, few, tmp_path / "model", options, recipe="detached")
    assert new_training(encoder, few, tmp_path / "model", options).run().finished


# -- whole trainings -----------------------------------------------------------------------------


RESUMED = {"cosee": "cosee[thresholds=50]"}
"""Forms in which a lost memory shows within two epochs; of five thresholds each may let the same samples leave."""


@pytest.mark.long
@pytest.mark.parametrize("name", EVERY)
def test_a_stopped_training_ends_in_the_same_weights(
    encoder: Path, few: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    recipe = RECIPES.make(RESUMED.get(name, name))
    whole = new_training(encoder, few, tmp_path / "whole", OPTIONS, recipe=recipe.text)
    assert whole.run().finished
    memory, forgetful = recipe.start(LAYERS, ROWS), []
    # In the middle of an epoch, and at the very end of a stage, before the next one begins.
    for at in sorted({4, 6, whole.total_steps - 2} - {whole.total_steps}):
        stopping, wrap = tmp_path / f"stopped-{at}", alarming(at, signal.SIGINT)
        assert not new_training(encoder, few, stopping, OPTIONS, recipe=recipe.text, wrap=wrap).run().finished
        if memory:
            forgetting = tmp_path / f"forgot-{at}"
            shutil.copytree(checkpoints_of(stopping), checkpoints_of(forgetting))
            with monkeypatch.context() as patch:
                patch.setattr(training, "load_recipe_state", lambda checkpoint: recipe.start(LAYERS, ROWS))
                assert new_training(encoder, few, forgetting, OPTIONS, recipe=recipe.text).run(resume=True).finished
            forgetful.append(forgetting)
        assert new_training(encoder, few, stopping, OPTIONS, recipe=recipe.text).run(resume=True).finished
        assert_same_weights(stopping, tmp_path / "whole")
    ends = weights(tmp_path / "whole")
    changed = [any(not torch.equal(weights(folder)[key], ends[key]) for key in ends) for folder in forgetful]
    assert any(changed) == bool(memory), "a training that forgets what its recipe knew must show, or the test is blind"


BY_HEART = {"two-stage", "alternating", "lte", "policy"}
"""Those that learn 64 rows by heart in the default tests, of several stages and with modules; the others are slow."""


@pytest.mark.long
@pytest.mark.parametrize(
    "name", [name if name in BY_HEART else pytest.param(name, marks=pytest.mark.slow) for name in EVERY]
)
def test_sixty_four_rows_are_learned_by_heart(encoder: Path, tmp_path: Path, name: str) -> None:
    data = write_reviews(tmp_path / "SST-2", {"train": 64})
    (data / "dev.tsv").write_text((data / "train.tsv").read_text())
    epochs = 40 if name == "past-future" else 20  # its first layers learn late
    options = TrainingOptions(epochs=epochs, batch_size=16, learning_rate=5e-3, head_learning_rate=1e-2)
    history = new_training(encoder, data, tmp_path / "model", options, recipe=name).run().history
    assert history[-1]["scores"][-1] > 95
    assert history[-1]["scores"][0] > 75


@pytest.mark.process
def test_two_processes_train_as_one_would(encoder: Path, few: Path, tmp_path: Path) -> None:
    done = two_processes("-m", "tests.support.trained_together", encoder, few, tmp_path)
    assert done.returncode == 0, done.stderr
    for name in EVERY:
        expected = plain_recipe_loop(encoder, few, RECIPES.make(name), ranks=2).exit_state()
        assert_close_weights(weights(tmp_path / name), expected)


def plain_recipe_loop(encoder: Path, reviews: Path, recipe: TrainingRecipe, ranks: int) -> nn.Module:
    """A training of a recipe in one process that takes the steps of several, one after another."""
    model = new_model(encoder, addition=recipe.addition)
    tokens = split_tokens(model, reviews, "train")
    first = {name: value.clone() for name, value in model.state_dict().items()}
    states = [recipe.start(model.depth, len(tokens)) for _ in range(ranks)]
    step = 0
    for number, stage in enumerate(recipe.stages(model.depth)):
        if stage.restart:
            model.load_state_dict(first)
        if stage.renew:
            model.added.renew(model)
        trained = open_for_training(model, stage, freeze_embeddings=False)
        optimizer = torch.optim.AdamW(parameter_groups(trained, OPTIONS), lr=0.0)
        epoch_steps = len(training_batches(tokens.lengths, OPTIONS.batch_size, OPTIONS.seed, 0, ranks)) // ranks
        steps = OPTIONS.epochs * epoch_steps
        for within in range(steps):
            epoch, epoch_step = divmod(within, epoch_steps)
            batches = training_batches(
                tokens.lengths, OPTIONS.batch_size, OPTIONS.seed, number * OPTIONS.epochs + epoch, ranks
            )
            optimizer.zero_grad()
            for rank in range(ranks):
                torch.manual_seed(step_seed(OPTIONS.seed, step, rank))
                rows = batches[epoch_step * ranks + rank]
                batch = tokens.batch(rows)
                assert batch.labels is not None
                moment = Moment(number, within, steps, epoch, OPTIONS.epochs, epoch_step, torch.tensor(rows))
                counted = [buffer.clone() for buffer in model.added.buffers()]
                exits = model.train()(batch, recipe.gradient_scales(model.depth, moment))
                loss = recipe.loss(exits, batch.labels, moment, states[rank])
                unused = sum(value.sum() for value in (exits.logits, *exits.outputs.values()))
                ((loss + 0 * unused) / ranks).backward()
                if rank:  # batch norms count what the first process sees
                    for buffer, before in zip(model.added.buffers(), counted, strict=True):
                        buffer.copy_(before)
            joined = {key: torch.stack([state[key] for state in states]).amax(0) for key in states[0]}
            states = [{key: value.clone() for key, value in joined.items()} for _ in range(ranks)]
            nn.utils.clip_grad_norm_(list(trained.values()), OPTIONS.clip)
            for group in optimizer.param_groups:
                group["lr"] = group["base_rate"] * rate_factor(within, steps, OPTIONS.warm_up)
            optimizer.step()
            step += 1
        if stage.asks:
            right = right_answers(model, tokens, 2 * OPTIONS.batch_size).bool()
            for state in states:
                recipe.after_stage(number, right, state)
    return model.eval()


# -- the verbs -----------------------------------------------------------------------------------


def test_published_exit_rules_are_signals() -> None:
    registry = load_registry()
    for name in EVERY:
        recipe = RECIPES.make(name)
        assert registry.make(recipe.exit_rule).text == recipe.exit_rule
        assert recipe.published
        assert recipe.title


def test_recipes_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code("list", "recipes", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert [row["key"] for row in rows] == EVERY
    (cosee,) = [row for row in rows if row["key"] == "cosee"]
    assert "beta=10 (0.05|0.2|1|10)" in cosee["parameters"]
    assert exit_code("list", "recipes") == 0
    assert "two-stage" in capsys.readouterr().out


def test_the_old_flag_names_the_new_one(
    encoder: Path, few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["train", "--model", encoder, "--task", "sst2", "--data-dir", few, "--out", tmp_path / "model"]
    assert exit_code(*words, "--loss", "two-stage") == 2
    assert "--loss is --recipe now: expected --recipe two-stage" in capsys.readouterr().err
    assert exit_code(*words, "--recipe", "two-stages") == 2
    assert "unknown recipe 'two-stages'. Did you mean two-stage?" in capsys.readouterr().err
    assert exit_code(*words, "--recipe", "cosee[beta=-1]") == 2
    assert "recipe cosee: beta must be a number, at least 0, found '-1'" in capsys.readouterr().err
    assert exit_code(*words, "--recipe", "cosee[beta=1|10]") == 2
    assert "expected one recipe, found a grid of 2" in capsys.readouterr().err


def test_a_users_own_recipe_is_found(
    encoder: Path, few: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "recipes"
    folder.mkdir()
    own = Path(RECIPES.origins["sum"]).read_text().replace('"sum"', '"own"').replace(".sum()", ".sum() * 2")
    (folder / "own.py").write_text(own)
    words = ["train", "--model", encoder, "--task", "sst2", "--data-dir", few, "--recipes-dir", folder, "--epochs", "1"]
    assert exit_code(*words, "--recipe", "own", "--out", tmp_path / "a") == 0
    record = json.loads((tmp_path / "a" / "training.json").read_text())
    assert record["settings"]["recipe"] == "own"
    assert exit_code("list", "recipes", "--recipes-dir", folder) == 0
    assert "own" in capsys.readouterr().out
    (folder / "own.py").write_text("1 / 0")
    assert exit_code(*words, "--recipe", "own", "--out", tmp_path / "b") == 2
    assert "own.py:1 in <module>: ZeroDivisionError" in capsys.readouterr().err
    assert exit_code(*words[:-4], "--recipes-dir", tmp_path / "none", "--recipe", "own", "--out", tmp_path / "b") == 2
    assert "expected a directory of recipes, found none at" in capsys.readouterr().err
