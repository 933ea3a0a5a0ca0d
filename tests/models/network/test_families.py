"""The adapters give, layer by layer, what the library's own forward pass gives."""

from typing import Any

import pytest
import torch
from torch import Tensor

from exitbench.errors import InputError
from exitbench.models.network.families import FAMILIES, require_family
from tests.support.tiny_models import tiny_backbone, token_batch

pytestmark = pytest.mark.long

TOLERANCE = 1e-5

VARIANTS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in FAMILIES),
    ("bert", {"attn_implementation": "eager"}),
    ("albert", {"num_hidden_groups": 2}),
    ("electra", {"embedding_size": 16}),
    ("deberta-v2", {"conv_kernel_size": 0}),
    ("deberta-v2", {"relative_attention": False, "pos_att_type": None, "position_biased_input": True}),
    ("deberta-v2", {"type_vocab_size": 0, "norm_rel_ebd": "none"}),
]


def identify(variant: Any) -> str:
    return variant if isinstance(variant, str) else ",".join(f"{k}={v}" for k, v in variant.items()) or "plain"


def layer_by_layer(backbone: Any, ids: Tensor, mask: Tensor, types: Tensor | None) -> list[Tensor]:
    family = require_family(backbone.config.model_type)(backbone)
    hidden, context = family.embed(ids, mask, types)
    states = [hidden]
    for index in range(1, family.depth + 1):
        hidden = family.layer(index, hidden, context)
        states.append(hidden)
    return states


def library_states(backbone: Any, ids: Tensor, mask: Tensor, types: Tensor | None) -> tuple[Tensor, ...]:
    reads_types = FAMILIES[backbone.config.model_type].token_types and types is not None
    inputs = {"token_type_ids": types} if reads_types else {}
    states = backbone(input_ids=ids, attention_mask=mask, output_hidden_states=True, **inputs).hidden_states
    assert isinstance(states, tuple)
    return states


@pytest.mark.parametrize(("name", "changes"), VARIANTS, ids=identify)
@pytest.mark.parametrize("with_types", [True, False], ids=["token types", "no token types"])
@pytest.mark.parametrize("padded", [True, False], ids=["padded", "full"])
@torch.no_grad()
def test_layer_by_layer_equals_the_librarys_forward(
    name: str, changes: dict[str, Any], with_types: bool, padded: bool
) -> None:
    backbone = tiny_backbone(name, **changes)
    ids, mask, types = token_batch()
    if not padded:
        ids, mask, types = ids[:1], mask[:1], types[:1]
    ours = layer_by_layer(backbone, ids, mask, types if with_types else None)
    library = library_states(backbone, ids, mask, types if with_types else None)
    assert len(ours) == len(library) == backbone.config.num_hidden_layers + 1
    for index, (our, their) in enumerate(zip(ours, library, strict=True)):
        torch.testing.assert_close(our, their, atol=TOLERANCE, rtol=0, msg=lambda text, m=index: f"layer {m}: {text}")


@torch.no_grad()
def test_a_layer_of_albert_is_one_pass_through_a_group_of_inner_layers() -> None:
    backbone = tiny_backbone("albert", inner_group_num=2)
    ids, mask, types = token_batch()
    ours = layer_by_layer(backbone, ids, mask, types)
    library = library_states(backbone, ids, mask, types)
    assert len(library) == 2 * backbone.config.num_hidden_layers + 1
    for our, their in zip(ours, library[::2], strict=True):
        torch.testing.assert_close(our, their, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", FAMILIES)
@torch.no_grad()
def test_samples_that_stay_are_untouched_when_others_leave(name: str) -> None:
    backbone = tiny_backbone(name)
    family = FAMILIES[name](backbone)
    ids, mask, types = token_batch(samples=6)
    full = layer_by_layer(backbone, ids, mask, types)
    hidden, context = family.embed(ids, mask, types)
    staying = torch.arange(6)
    for index, rows in enumerate([[0, 2, 3, 5], [1, 2], [1], [0]], start=1):
        hidden, context, staying = hidden[rows], context.take(torch.tensor(rows)), staying[rows]
        hidden = family.layer(index, hidden, context)
        assert context.samples == len(rows)
        torch.testing.assert_close(hidden, full[index][staying], atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("name", ["distilbert", "mpnet"])
def test_families_without_token_types_ignore_them(name: str) -> None:
    ids, mask, types = token_batch()
    backbone = tiny_backbone(name)
    with_types, without = (layer_by_layer(backbone, ids, mask, token_types)[-1] for token_types in (types, None))
    assert torch.equal(with_types, without)


def test_another_family_is_refused_with_the_list_of_supported_ones() -> None:
    with pytest.raises(InputError, match="bert, albert, roberta, distilbert, electra, mpnet, deberta-v2, found 'gpt2'"):
        require_family("gpt2")
    with pytest.raises(InputError, match="no model_type"):
        require_family("")
