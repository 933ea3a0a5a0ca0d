import pytest
import torch

from exitbench.cache.format.finite import all_finite

FLOATS = [torch.float16, torch.bfloat16, torch.float32]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("value", [torch.nan, torch.inf, -torch.inf])
def test_one_number_that_is_not_finite_is_found_wherever_it_lies(dtype: torch.dtype, value: float) -> None:
    for position in range(77):
        numbers = torch.linspace(-3, 3, 77).to(dtype)
        numbers[position] = value
        assert not all_finite(numbers)
        assert not all_finite(numbers.view(7, 11).T)


@pytest.mark.parametrize("dtype", FLOATS)
def test_the_largest_numbers_a_dtype_holds_are_finite_and_so_is_nothing(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max
    assert all_finite(torch.tensor([largest, -largest] * 50, dtype=dtype))
    assert all_finite(torch.empty((0, 5), dtype=dtype))
