"""What a multi-exit network costs on paper: operations and parameters, from its shape alone.

The published convention counts a linear map as ``2 in out`` per token and a layer norm as 8 per element, and omits
attention's two products; the second convention adds them. The table has the published CAP, which multiplies by a
projector of N x N, and this suite's NSP and CAP, which need the offset norm and a C x C matrix.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from exitbench.errors import InputError
from exitbench.places import PUBLISHED

Per = Literal["sample", "sample, layer", "layer, once"]


@dataclass(frozen=True)
class Shape:
    """The sizes that decide the cost; the defaults are BERT-base on 128 tokens."""

    layers: int = 12
    width: int = 768
    intermediate: int = 3072
    length: int = 128
    vocabulary: int = 30522
    positions: int = 512
    token_types: int = 2

    def __post_init__(self) -> None:
        for name in ("layers", "width", "intermediate", "length"):
            if getattr(self, name) < 1:
                raise InputError(f"expected {name} of at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class Operations:
    """The operations of one module, with C classes.

    ``published_convention`` is ``None`` where the paper derives none; ``published`` is the paper's printed figure,
    empty where it has none for this shape.
    """

    module: str
    classes: int
    per: Per
    published_convention: int | None
    with_attention: int | None
    published: str = ""


@dataclass(frozen=True)
class Parameters:
    """How many parameters a part of the network has, with C classes; ``published`` as in :class:`Operations`."""

    part: str
    classes: int
    parameters: int
    published: str = ""


def embedding(shape: Shape) -> int:
    """Looking up is free; what counts is the layer norm, 8 per element."""
    return 8 * shape.length * shape.width


def encoder_block(shape: Shape, *, attention: bool = False) -> int:
    """Four N x N maps, the two of the feed-forward part and two layer norms; ``attention`` adds its two products.

    >>> encoder_block(Shape())
    1813512192
    """
    S, N, F = shape.length, shape.width, shape.intermediate
    products = 4 * S * S * N if attention else 0
    return 2 * S * (4 * N * N + 2 * N * F) + 16 * S * N + products


def pooler(shape: Shape) -> int:
    """One N x N map of one vector."""
    return 2 * shape.width**2


def classifier(shape: Shape, classes: int) -> int:
    """One C x N map of one vector."""
    return 2 * shape.width * classes


def projection_matrix(shape: Shape, classes: int) -> int:
    """``W^T (W W^T)^-1 W``, once per layer and model: N x C by C x C by C x N, with an inverse of C^3."""
    N, C = shape.width, classes
    return N * N * (2 * C - 1) + N * C * (2 * C - 1) + C * C * (2 * N - 1) + C**3


def projector_cap(shape: Shape) -> int:
    """CAP as published: the shifted feature times the N x N projector."""
    return 2 * shape.width**2


def suite_null_space(shape: Shape, classes: int) -> int:
    """NSP and CAP here: the offset norm (2N) and a quadratic form of the logits (2 C^2), leading terms.

    >>> suite_null_space(Shape(), 2)
    1544
    """
    return 2 * shape.width + 2 * classes**2


def network_total(shape: Shape, classes: int, *, attention: bool = False) -> int:
    """One sample through all layers of the plain network, with one pooler and one head."""
    blocks = shape.layers * encoder_block(shape, attention=attention)
    return embedding(shape) + blocks + pooler(shape) + classifier(shape, classes)


def operations(shape: Shape, classes: Iterable[int]) -> list[Operations]:
    """The table of operations, one row per module and number of classes."""
    return [row for C in classes for row in _operations(shape, C)]


def _operations(shape: Shape, C: int) -> Iterator[Operations]:
    printed = published_operations() if (shape.width, shape.intermediate, shape.length) == (768, 3072, 128) else {}
    counted: tuple[tuple[str, Per, int | None, int | None], ...] = (
        ("embedding", "sample", embedding(shape), embedding(shape)),
        ("encoder", "sample, layer", encoder_block(shape), encoder_block(shape, attention=True)),
        ("pooler", "sample, layer", pooler(shape), pooler(shape)),
        ("classifier", "sample, layer", classifier(shape, C), classifier(shape, C)),
        ("offset_vector", "layer, once", None, None),
        ("projection_matrix", "layer, once", projection_matrix(shape, C), projection_matrix(shape, C)),
        ("cap", "sample, layer", projector_cap(shape), projector_cap(shape)),
        ("nsp_suite", "sample, layer", suite_null_space(shape, C), suite_null_space(shape, C)),
        ("cap_suite", "sample, layer", suite_null_space(shape, C), suite_null_space(shape, C)),
        ("network", "sample", network_total(shape, C), network_total(shape, C, attention=True)),
    )
    for module, per, plain, attention in counted:
        yield Operations(module, C, per, plain, attention, printed.get((module, C), ""))


def encoder_parameters(shape: Shape) -> int:
    """The parameters of BERT itself: embeddings with their layer norm, the blocks, and the plain network's pooler.

    >>> encoder_parameters(Shape())
    109482240
    """
    N, F = shape.width, shape.intermediate
    embeddings = (shape.vocabulary + shape.positions + shape.token_types) * N + 2 * N
    block = 4 * (N * N + N) + (N * F + F) + (F * N + N) + 4 * N
    return embeddings + shape.layers * block + pooler_parameters(shape)


def pooler_parameters(shape: Shape) -> int:
    """One N x N map with its bias."""
    return shape.width**2 + shape.width


def extra_heads(shape: Shape, classes: int) -> int:
    """What the internal exits add as published: heads only, ``(M - 1)(N C + C)``.

    >>> extra_heads(Shape(), 2), extra_heads(Shape(), 3)
    (16918, 25377)
    """
    return (shape.layers - 1) * (shape.width * classes + classes)


def parameter_table(shape: Shape, classes: Iterable[int]) -> list[Parameters]:
    """The table of parameters of a BERT of this shape: the plain network, and what exits add.

    Heads are counted as published; poolers have rows of their own, shared and per layer.
    """
    base = (shape.layers, shape.width, shape.intermediate) == (12, 768, 3072)
    printed = published_parameters() if base else {}
    rows = []
    for C in classes:
        rows += [
            Parameters("encoder", C, encoder_parameters(shape), printed.get(("BERT-base", C), "")),
            Parameters("extra_heads", C, extra_heads(shape, C), printed.get(("CAP extra", C), "")),
            Parameters("extra_poolers_shared", C, 0),
            Parameters("extra_poolers_per_layer", C, (shape.layers - 1) * pooler_parameters(shape)),
        ]
    return rows


def counted_parameters(shape: Shape, classes: int, counts: Mapping[str, int]) -> list[Parameters]:
    """The table for a real network, whose ``counts`` say what its weights hold: encoder, heads, poolers (all layers).

    The extra heads come first, in the published way of counting.
    """
    printed = published_parameters() if (shape.layers, shape.width) == (12, 768) else {}
    extra = Parameters("extra_heads", classes, extra_heads(shape, classes), printed.get(("CAP extra", classes), ""))
    return [extra, *(Parameters(f"counted_{part}", classes, number) for part, number in counts.items())]


def short(number: int | None, digits: int = 1) -> str:
    """A count as the paper prints it: thousands as K, all larger ones as M.

    >>> short(786432), short(1813512192), short(16918, 2), short(0), short(None)
    ('786.4K', '1813.5M', '16.92K', '0', '-')
    """
    if number is None:
        return "-"
    if number < 1000:
        return str(number)
    return f"{number / 1e3:.{digits}f}K" if number < 1e6 else f"{number / 1e6:.{digits}f}M"


def published_operations() -> dict[tuple[str, int], str]:
    """The paper's printed operations by module and number of classes."""
    return {(row["module"], int(row["classes"])): row["flops"] for row in _published("flops_bert_base.csv")}


def published_parameters() -> dict[tuple[str, int], str]:
    """The paper's printed parameters by model and number of classes."""
    return {(row["model"], int(row["classes"])): row["params"] for row in _published("params_bert_base.csv")}


def published_overheads() -> dict[str, tuple[float, float]]:
    """The paper's seconds and overhead in percent by method, SST-2 dev on a GPU, exits unreachable."""
    rows = _published("inference_time_sst2_dev.csv")
    return {row["method"]: (float(row["seconds"]), float(row["overhead_percent"])) for row in rows}


def _published(name: str) -> list[dict[str, str]]:
    with (PUBLISHED / name).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))
