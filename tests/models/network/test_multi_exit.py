"""The multi-exit network: exits, pooling, saving and loading."""

import json
import resource
import shutil
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from transformers import AutoModel
from transformers.utils import logging

from exitbench.errors import InputError
from exitbench.models.data.batches import TokenBatch
from exitbench.models.network.families import FAMILIES
from exitbench.models.network.folders import draft_folder, quiet_library
from exitbench.models.network.multi_exit import MultiExitConfig, MultiExitModel
from tests.support.tiny_models import save_backbone, tiny_backbone, token_batch

pytestmark = pytest.mark.long

CLASSES = ("negative", "positive", "neither")


def tiny_batch(samples: int = 5) -> TokenBatch:
    ids, mask, types = token_batch(samples)
    return TokenBatch(ids, mask, types)


def multi_exit(family: str = "bert", pooling: str = "mean", pooler: str = "per-layer") -> MultiExitModel:
    config = MultiExitConfig(CLASSES, pooling, pooler)  # type: ignore[arg-type]
    return MultiExitModel(tiny_backbone(family), config).eval()


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_logits_are_the_head_applied_to_the_pooled_hidden_state(family: str) -> None:
    model = multi_exit(family, "mean", "per-layer")
    batch = tiny_batch()
    features, logits, _ = model(batch)
    assert features.shape == (4, 5, 16)
    assert logits.shape == (4, 5, 3)
    inputs = {"token_type_ids": batch.token_type_ids} if FAMILIES[family].token_types else {}
    states = model.backbone(
        input_ids=batch.input_ids, attention_mask=batch.attention_mask, output_hidden_states=True, **inputs
    ).hidden_states
    for m in range(1, 5):
        for row in range(5):
            tokens = int(batch.attention_mask[row].sum())
            mean = states[m][row, :tokens].mean(0)
            pooled = torch.tanh(model.poolers[m - 1](mean))
            torch.testing.assert_close(features[m - 1, row], pooled, atol=1e-5, rtol=0)
            expected = model.heads[m - 1].weight @ pooled + model.heads[m - 1].bias
            torch.testing.assert_close(logits[m - 1, row], expected, atol=1e-5, rtol=0)


@torch.no_grad()
def test_first_token_pooling_reads_the_first_token_only() -> None:
    model = multi_exit(pooling="first", pooler="none")
    batch = tiny_batch()
    hidden, context = model.start(batch)
    hidden = model.advance(1, hidden, context)
    assert torch.equal(model.pool(1, hidden, context), hidden[:, 0])


@torch.no_grad()
def test_a_shared_pooler_serves_every_layer() -> None:
    model = multi_exit(pooling="first", pooler="shared")
    batch = tiny_batch()
    hidden, context = model.start(batch)
    assert len(model.poolers) == 1
    for m in range(1, 5):
        hidden = model.advance(m, hidden, context)
        torch.testing.assert_close(model.pool(m, hidden, context), torch.tanh(model.poolers[0](hidden[:, 0])))


@torch.no_grad()
def test_heads_answer_in_float32_under_autocast() -> None:
    model = multi_exit()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        features, logits, _ = model(tiny_batch())
    assert features.dtype == logits.dtype == torch.float32
    for m in range(4):
        exact = features[m] @ model.heads[m].weight.T + model.heads[m].bias
        torch.testing.assert_close(logits[m], exact, atol=1e-6, rtol=0)


def test_dropout_touches_the_logits_in_training_but_never_the_features() -> None:
    model = MultiExitModel(tiny_backbone("bert", hidden_dropout_prob=0.5), MultiExitConfig(CLASSES))
    model.train()
    model.backbone.eval()
    torch.manual_seed(0)
    (first, first_logits, _), (second, second_logits, _) = (model(tiny_batch()) for _ in range(2))
    assert torch.equal(first, second)
    assert not torch.equal(first_logits, second_logits)


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_a_saved_model_gives_the_same_answers_when_loaded(tmp_path: Path, family: str) -> None:
    save_backbone(tmp_path / "encoder", family)
    config = MultiExitConfig(CLASSES, "mean", "per-layer", task="reviews", max_length=40)
    model = MultiExitModel.from_backbone(tmp_path / "encoder", config, seed=3)
    model.save_pretrained(tmp_path / "model")
    loaded = MultiExitModel.from_pretrained(tmp_path / "model")
    assert loaded.config == config
    assert loaded.name == "model"
    for ours, reloaded in zip(model(tiny_batch())[:2], loaded(tiny_batch())[:2], strict=True):
        assert torch.equal(ours, reloaded)
    assert loaded.tokenizer("a good film")["input_ids"] == model.tokenizer("a good film")["input_ids"]


@pytest.mark.parametrize("family", FAMILIES)
@torch.no_grad()
def test_the_library_reads_the_encoder_out_of_a_saved_model(tmp_path: Path, family: str) -> None:
    save_backbone(tmp_path / "encoder", family)
    MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES)).save_pretrained(tmp_path / "model")
    ids, mask, _ = token_batch()
    before, after = (
        AutoModel.from_pretrained(tmp_path / folder)(input_ids=ids, attention_mask=mask).last_hidden_state
        for folder in ("encoder", "model")
    )
    torch.testing.assert_close(before, after)


def test_the_section_in_config_json_says_what_the_exits_are(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    config = MultiExitConfig(CLASSES, "mean", "none", task="reviews")
    MultiExitModel.from_backbone(tmp_path / "encoder", config).save_pretrained(tmp_path / "model")
    written = json.loads((tmp_path / "model" / "config.json").read_text())
    assert written["exitbench"] == {
        "classes": list(CLASSES),
        "pooling": "mean",
        "pooler": "none",
        "task": "reviews",
        "max_length": 128,
        "addition": "",
    }
    assert written["id2label"] == {"0": "negative", "1": "positive", "2": "neither"}
    assert {"model.safetensors", "tokenizer.json"} <= {path.name for path in (tmp_path / "model").iterdir()}


def test_new_heads_are_a_function_of_the_seed(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    heads = [
        MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES), seed).head_arrays()
        for seed in (1, 1, 2)
    ]
    assert heads[0][0].shape == (4, 3, 16)
    assert heads[0][1].shape == (4, 3)
    assert torch.equal(heads[0][0], heads[1][0])
    assert not torch.equal(heads[0][0], heads[2][0])


@pytest.mark.parametrize("family", ["bert", "albert"])
def test_first_token_poolers_start_from_the_encoders_own(tmp_path: Path, family: str) -> None:
    save_backbone(tmp_path / "encoder", family)
    stored = load_file(tmp_path / "encoder" / "model.safetensors")
    weights = next(value for key, value in stored.items() if key.endswith(("pooler.dense.weight", "pooler.weight")))
    first = MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES, "first", "per-layer"))
    mean = MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES, "mean", "per-layer"))
    assert all(torch.equal(pooler.weight, weights) for pooler in first.poolers)
    assert not any(torch.equal(pooler.weight, weights) for pooler in mean.poolers)
    assert not any("pooler.dense" in key for key in first.exit_state())


def test_a_plain_encoder_is_refused_where_exits_are_needed(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    with pytest.raises(InputError, match=r"expected a model with exits in .*encoder, found a plain bert encoder"):
        MultiExitModel.from_pretrained(tmp_path / "encoder")


def test_a_missing_folder_is_one_clear_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        MultiExitModel.from_pretrained(tmp_path / "nowhere")


def test_an_unsupported_family_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(InputError, match="found 'gpt2'"):
        MultiExitModel.from_backbone(tmp_path, MultiExitConfig(CLASSES))


def test_an_encoder_without_weights_is_refused(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    (tmp_path / "encoder" / "model.safetensors").unlink()
    with pytest.raises(InputError, match="expected the weights of an encoder"):
        MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))


def test_weights_of_another_family_are_refused(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder", "bert")
    save_backbone(tmp_path / "other", "distilbert")
    shutil.copy(tmp_path / "other" / "model.safetensors", tmp_path / "encoder")
    with pytest.raises(InputError, match="expected the weights of a bert encoder"):
        MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))


def test_a_model_without_its_tokenizer_is_refused(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    tokenizer = tmp_path / "encoder" / "tokenizer.json"
    tokenizer.write_text("{")
    with pytest.raises(InputError, match=r"expected a tokenizer beside the model in .*, found: "):
        MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))
    tokenizer.unlink()
    with pytest.raises(InputError, match=r"expected a tokenizer beside the model in .*, found none of tokenizer.json"):
        MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))


@pytest.mark.parametrize("damage", ["missing", "cut"])
def test_damaged_weights_of_a_saved_model_are_refused(tmp_path: Path, damage: str) -> None:
    save_backbone(tmp_path / "encoder")
    MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES)).save_pretrained(tmp_path / "model")
    weights = tmp_path / "model" / "model.safetensors"
    if damage == "missing":
        weights.unlink()
    else:
        weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(InputError, match="expected the weights of this model"):
        MultiExitModel.from_pretrained(tmp_path / "model")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "men"}, "expected pooling to be one of first, mean, found 'men'. Did you mean mean"),
        ({"pooler": "perlayer"}, "expected pooler to be one of .* Did you mean per-layer"),
        ({"classes": ("one",)}, "two or more different classes"),
        ({"classes": ("one", "one")}, "two or more different classes"),
    ],
)
def test_impossible_exits_are_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        MultiExitConfig(**{"classes": CLASSES, **changes})  # type: ignore[arg-type]


def test_a_full_disk_leaves_the_old_model_and_no_half_written_one(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    model = MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))
    model.save_pretrained(tmp_path / "model")
    before = (tmp_path / "model" / "model.safetensors").read_bytes()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    # A limit on file size fails the write at the same place as a full disk does.
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))
    try:
        with pytest.raises(InputError, match="cannot be written"):
            model.save_pretrained(tmp_path / "model")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (tmp_path / "model" / "model.safetensors").read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["encoder", "model"]


def test_a_place_that_cannot_hold_a_folder_is_one_clear_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="cannot be written"):
        multi_exit().save_pretrained(tmp_path / "file" / "model")


def test_a_draft_disappears_with_any_error(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), draft_folder(tmp_path / "model") as draft:
        (draft / "half").write_text("x")
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []


def test_a_model_without_a_tokenizer_of_its_own_is_saved_without(tmp_path: Path) -> None:
    multi_exit().save_pretrained(tmp_path / "model", {"note": "made by hand"})
    assert sorted(path.name for path in (tmp_path / "model").iterdir()) == [
        "config.json",
        "model.safetensors",
        "training.json",
    ]


def test_the_library_keeps_its_own_loudness(tmp_path: Path) -> None:
    logging.enable_progress_bar()
    before = logging.get_verbosity()
    with quiet_library():
        assert logging.get_verbosity() == logging.ERROR
        assert not logging.is_progress_bar_enabled()
    assert logging.get_verbosity() == before
    assert logging.is_progress_bar_enabled()
    logging.disable_progress_bar()


def test_the_fingerprint_follows_every_weight() -> None:
    model = multi_exit()
    before = model.fingerprint()
    assert before == multi_exit().fingerprint()
    assert len(before) == 16
    with torch.no_grad():
        model.backbone.encoder.layer[1].output.dense.bias[3] += 1e-6
    assert model.fingerprint() != before


def test_saving_again_replaces_the_folder(tmp_path: Path) -> None:
    save_backbone(tmp_path / "encoder")
    model = MultiExitModel.from_backbone(tmp_path / "encoder", MultiExitConfig(CLASSES))
    model.save_pretrained(tmp_path / "model")
    with torch.no_grad():
        model.heads[0].bias.fill_(7.0)
    model.save_pretrained(tmp_path / "model")
    assert torch.equal(MultiExitModel.from_pretrained(tmp_path / "model").head_arrays()[1][0], torch.full((3,), 7.0))
