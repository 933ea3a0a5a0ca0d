"""Encoder families, layer by layer: how each library model embeds its input and runs one layer.

A library encoder runs all its layers in one call. Early exit needs them one at a time, for fewer and
fewer samples, so every family has a thin adapter with two calls: :meth:`Family.embed` and
:meth:`Family.layer`. The modules and their weights stay the library's own; an adapter only repeats the
few lines between them (masks, position biases, projections), and tests hold it to the library's forward.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from transformers.masking_utils import create_bidirectional_mask

from exitbench.errors import InputError


@dataclass(frozen=True)
class Context:
    """What the layers of one batch share besides the hidden states.

    ``padding`` [samples, tokens] is 1 for a token and 0 for padding; ``mask`` is the family's own
    attention mask with the samples first, or ``None`` when nothing is masked; ``shared`` holds what is
    the same for every sample (position biases), so it never shrinks.
    """

    padding: Tensor
    mask: Tensor | None
    shared: tuple[Tensor | None, ...] = ()

    @property
    def samples(self) -> int:
        return int(self.padding.shape[0])

    def take(self, rows: Tensor) -> Context:
        """The context of the samples at ``rows`` (an index or a mask) only."""
        return dataclasses.replace(
            self, padding=self.padding[rows], mask=None if self.mask is None else self.mask[rows]
        )


class Family:
    """The adapter of one library encoder; subclasses say what differs from BERT."""

    name: ClassVar[str]
    token_types: ClassVar[bool] = True
    """Whether the embeddings read token types; a family without them ignores what it is given."""
    opens_layers: ClassVar[bool] = False
    """Whether a layer can be looked into, as :meth:`opened_layer` does."""

    def __init__(self, backbone: Any) -> None:
        self.backbone = backbone

    @property
    def depth(self) -> int:
        return int(self.backbone.config.num_hidden_layers)

    @property
    def width(self) -> int:
        return int(self.backbone.config.hidden_size)

    def embed(
        self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None = None
    ) -> tuple[Tensor, Context]:
        """Hidden states before layer 1, [samples, tokens, width], and the context for all layers.

        All three inputs are [samples, tokens] integers; ``attention_mask`` is 1 for a token.
        """
        hidden = self.embeddings(input_ids, attention_mask, token_type_ids)
        return hidden, self.context(hidden, attention_mask)

    def context(self, hidden: Tensor, attention_mask: Tensor) -> Context:
        """The context of samples whose hidden states [samples, tokens, width] come from any layer."""
        return Context(attention_mask, self.mask(hidden, attention_mask), self.shared(hidden))

    def layer(self, index: int, hidden: Tensor, context: Context) -> Tensor:
        """Hidden states after layer ``index`` (from 1), [samples, tokens, width]."""
        output = self.backbone.encoder.layer[index - 1](hidden, context.mask, *context.shared)
        # Some library layers return a tensor, others a tuple that starts with it.
        return output if isinstance(output, Tensor) else output[0]

    def opened_layer(self, index: int, hidden: Tensor, context: Context) -> tuple[Tensor, Tensor, Tensor]:
        """Layer ``index`` in its parts, each [samples, tokens, width]: hidden states after it, what its attention says,
        and the sum of that and of the feed-forward part before the last norm."""
        layer = self.backbone.encoder.layer[index - 1]
        attended = layer.attention(hidden, context.mask, *context.shared)[0]
        summed = layer.output.dropout(layer.output.dense(layer.intermediate(attended))) + attended
        return layer.output.LayerNorm(summed), attended, summed

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        return self.backbone.embeddings(input_ids=input_ids, token_type_ids=token_type_ids)  # type: ignore[no-any-return]

    def mask(self, hidden: Tensor, attention_mask: Tensor) -> Tensor | None:
        mask = create_bidirectional_mask(
            config=self.backbone.config, inputs_embeds=hidden, attention_mask=attention_mask
        )
        assert mask is None or isinstance(mask, Tensor)
        return mask

    def shared(self, hidden: Tensor) -> tuple[Tensor | None, ...]:
        return ()


class Bert(Family):
    """The pattern the others are measured against."""

    name = "bert"
    opens_layers = True


class Roberta(Family):
    """BERT with positions counted from the padding id on, which its own embeddings do."""

    name = "roberta"
    opens_layers = True


class Electra(Family):
    """BERT whose embeddings may be narrower than its layers."""

    name = "electra"
    opens_layers = True

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        hidden = super().embeddings(input_ids, attention_mask, token_type_ids)
        if hasattr(self.backbone, "embeddings_project"):
            hidden = self.backbone.embeddings_project(hidden)
        return hidden


class Albert(Family):
    """One group of layers used again and again, behind a projection of narrow embeddings.

    A layer here is one pass through a group, as ``num_hidden_layers`` counts them, however many inner
    layers the group holds.
    """

    name = "albert"

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        narrow = super().embeddings(input_ids, attention_mask, token_type_ids)
        return self.backbone.encoder.embedding_hidden_mapping_in(narrow)  # type: ignore[no-any-return]

    def layer(self, index: int, hidden: Tensor, context: Context) -> Tensor:
        config = self.backbone.config
        group = int((index - 1) / (config.num_hidden_layers / config.num_hidden_groups))
        return self.backbone.encoder.albert_layer_groups[group](hidden, context.mask)  # type: ignore[no-any-return]


class DistilBert(Family):
    """BERT without token types, its layers under another name."""

    name = "distilbert"
    token_types = False

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        return self.backbone.embeddings(input_ids)  # type: ignore[no-any-return]

    def layer(self, index: int, hidden: Tensor, context: Context) -> Tensor:
        return self.backbone.transformer.layer[index - 1](hidden, context.mask)  # type: ignore[no-any-return]


class MPNet(Family):
    """BERT with one relative position bias for all layers, and no token types."""

    name = "mpnet"
    opens_layers = True
    token_types = False

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        return self.backbone.embeddings(input_ids=input_ids)  # type: ignore[no-any-return]

    def shared(self, hidden: Tensor) -> tuple[Tensor | None, ...]:
        # The bias depends on the token count alone: computed for one sample, broadcast over the others.
        return (self.backbone.encoder.compute_position_bias(hidden[:1]),)


class DebertaV2(Family):
    """Disentangled attention over relative positions; layer 1 may end in a convolution."""

    name = "deberta-v2"

    def embeddings(self, input_ids: Tensor, attention_mask: Tensor, token_type_ids: Tensor | None) -> Tensor:
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        return self.backbone.embeddings(input_ids=input_ids, token_type_ids=types, mask=attention_mask)  # type: ignore[no-any-return]

    def mask(self, hidden: Tensor, attention_mask: Tensor) -> Tensor | None:
        return self.backbone.encoder.get_attention_mask(attention_mask)  # type: ignore[no-any-return]

    def shared(self, hidden: Tensor) -> tuple[Tensor | None, ...]:
        encoder = self.backbone.encoder
        return encoder.get_rel_pos(hidden), encoder.get_rel_embedding()

    def layer(self, index: int, hidden: Tensor, context: Context) -> Tensor:
        encoder = self.backbone.encoder
        positions, embeddings = context.shared
        output, _ = encoder.layer[index - 1](hidden, context.mask, relative_pos=positions, rel_embeddings=embeddings)
        if index == 1 and encoder.conv is not None:
            output = encoder.conv(hidden, output, context.padding)
        return output  # type: ignore[no-any-return]


FAMILIES: dict[str, type[Family]] = {
    family.name: family for family in (Bert, Albert, Roberta, DistilBert, Electra, MPNet, DebertaV2)
}
"""Every supported family by the library's ``model_type``."""


def require_family(model_type: str) -> type[Family]:
    """The adapter for a library ``model_type``, or an error that lists what is supported."""
    if model_type not in FAMILIES:
        raise InputError(
            f"expected an encoder of one of the families {', '.join(FAMILIES)}, found {model_type or 'no model_type'!r}"
        )
    return FAMILIES[model_type]
