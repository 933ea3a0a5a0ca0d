import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from exitbench.head_algebra import BLOCK_ELEMENTS, head_algebra, offset_norms


def random_head(seed: int, classes: int, width: int, rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    left = torch.randn((classes, rank), generator=generator, dtype=torch.float64)
    right = torch.randn((rank, width), generator=generator, dtype=torch.float64)
    return left @ right, torch.randn(classes, generator=generator, dtype=torch.float64)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 10_000), classes=st.integers(2, 6), width=st.integers(1, 12), data=st.data())
def test_offset_and_gram_inverse_are_numpys_pseudo_inverses(
    seed: int, classes: int, width: int, data: st.DataObject
) -> None:
    rank = data.draw(st.integers(1, min(classes, width)))
    weight, bias = random_head(seed, classes, width, rank)
    singular = np.linalg.svd(weight.numpy(), compute_uv=False)[:rank]
    if singular[-1] < 2e-4 * singular[0]:
        return
    head = head_algebra(weight, bias)
    pinv = np.linalg.pinv(weight.numpy(), rcond=1e-4)
    scale = np.abs(pinv).max()
    assert head.rank == rank
    np.testing.assert_allclose(head.offset.numpy(), pinv @ bias.numpy(), atol=1e-9 * scale * 10)
    np.testing.assert_allclose(head.gram_inverse.numpy(), pinv.T @ pinv, atol=1e-9 * scale**2 * 10)


def test_a_zero_head_has_rank_zero_and_no_offset() -> None:
    head = head_algebra(torch.zeros((3, 5)), torch.ones(3))
    assert head.rank == 0
    assert head.offset.abs().max() == 0
    assert head.gram_inverse.abs().max() == 0


def test_a_singular_value_below_a_ten_thousandth_of_the_largest_is_dropped() -> None:
    keep = head_algebra(torch.diag(torch.tensor([1.0, 2e-4])), torch.ones(2))
    drop = head_algebra(torch.diag(torch.tensor([1.0, 0.5e-4])), torch.ones(2))
    assert (keep.rank, drop.rank) == (2, 1)


def test_the_centred_head_ignores_a_constant_added_to_all_class_rows() -> None:
    weight, bias = random_head(3, 4, 9, 4)
    plain = head_algebra(weight, bias).centered
    moved = head_algebra(weight + torch.randn(9, dtype=torch.float64), bias + 5).centered
    torch.testing.assert_close(plain.gram_inverse, moved.gram_inverse)
    torch.testing.assert_close(plain.offset, moved.offset)
    assert plain.rank == 3


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("samples", [0, 1, 682, 683, 2000])
def test_offset_norms_equal_the_float64_norm(dtype: torch.dtype, samples: int) -> None:
    generator = torch.Generator().manual_seed(samples)
    features = torch.randn((samples, 768), generator=generator).to(dtype)
    offset = torch.randn(768, generator=generator, dtype=torch.float64)
    expected = torch.linalg.vector_norm(features.double() + offset, dim=1)
    norms = offset_norms(features, offset)
    assert norms.dtype is torch.float32
    torch.testing.assert_close(norms.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_offset_norms_keep_their_digits_where_the_offset_almost_cancels_the_feature(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    features = (100 + torch.randn((900, 768), generator=generator)).to(dtype)
    offset = -features[0].double()
    norms = offset_norms(features, offset)
    assert norms[0] == 0
    expected = torch.linalg.vector_norm(features.double() + offset, dim=1)
    torch.testing.assert_close(norms.double(), expected, rtol=1e-6, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
@pytest.mark.parametrize("width", [1, 7, 33, 768, 1025])
def test_the_offset_norm_of_a_row_is_the_same_in_every_company(dtype: torch.dtype, width: int) -> None:
    generator = torch.Generator().manual_seed(width)
    samples = 2 * BLOCK_ELEMENTS // width + 5 if width > 700 else 500
    features = torch.randn((samples, width), generator=generator).to(dtype)
    offset = torch.randn(width, generator=generator, dtype=torch.float64)
    untouched, whole = features.clone(), offset_norms(features, offset)
    for start, stop in ((0, 1), (1, 3), (samples - 7, samples), (100, 164)):
        assert torch.equal(offset_norms(features[start:stop], offset), whole[start:stop])
    columns_first = features[:300].T.contiguous().T
    between_others = torch.stack([features, features + 1], dim=1)[:, 0]
    assert torch.equal(offset_norms(columns_first, offset), whole[:300])
    assert torch.equal(offset_norms(between_others, offset), whole)
    assert torch.equal(features, untouched)


def test_offset_norms_do_not_see_the_number_of_threads() -> None:
    generator = torch.Generator().manual_seed(0)
    features, offset = torch.randn((1500, 768), generator=generator).half(), torch.ones(768)
    threads = torch.get_num_threads()
    try:
        norms = []
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            norms.append(offset_norms(features, offset))
    finally:
        torch.set_num_threads(threads)
    assert torch.equal(norms[0], norms[1])
    assert torch.equal(norms[0], norms[2])


class LargestMade(TorchDispatchMode):
    """Notes the size of the largest tensor that any operation gives, views of its input apart."""

    def __init__(self, given: torch.Tensor) -> None:
        super().__init__()
        self.storage, self.elements = given.untyped_storage().data_ptr(), 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        result = operation(*args, **(kwargs or {}))
        for part in result if isinstance(result, (tuple, list)) else [result]:
            if isinstance(part, torch.Tensor) and part.untyped_storage().data_ptr() != self.storage:
                self.elements = max(self.elements, part.numel())
        return result


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_offset_norms_of_many_rows_are_made_in_blocks(dtype: torch.dtype) -> None:
    features = torch.ones((3 * BLOCK_ELEMENTS // 64 + 5, 64), dtype=dtype)
    with LargestMade(features) as made:
        offset_norms(features, torch.zeros(64, dtype=torch.float64))
    assert 0 < made.elements <= BLOCK_ELEMENTS == 2**19
