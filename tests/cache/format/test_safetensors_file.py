"""The header of a file is believed up to its last byte and up to a size, and not one byte further."""

import json
import os
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from exitbench.cache.format.safetensors_file import LARGEST_HEADER, encode, open_tensors
from exitbench.errors import InputError


def write(path: Path, *, header_bytes: int | None = None) -> int:
    """A file of two tensors, its header filled up with spaces to ``header_bytes``; the size of the file."""
    header, *data = (bytes(block) for block in encode({"a": torch.arange(3), "b": torch.ones((2, 5))}))
    if header_bytes is not None:
        header = header_bytes.to_bytes(8, "little") + header[8:].ljust(header_bytes)
    path.write_bytes(header + b"".join(data))
    return path.stat().st_size


@pytest.mark.parametrize("lost", [1, 4, 7, 8, 9])
def test_a_file_cut_by_a_few_bytes_is_refused_before_any_tensor_is_read(tmp_path: Path, lost: int) -> None:
    size = write(tmp_path / "t")
    assert open_tensors(tmp_path, "t").tensor("b").block().sum() == 10
    os.truncate(tmp_path / "t", size - lost)
    with pytest.raises(InputError, match=f"truncated: expected at least {size} bytes, found {size - lost}$"):
        open_tensors(tmp_path, "t")


def test_a_header_is_read_up_to_a_megabyte_and_refused_beyond(tmp_path: Path) -> None:
    assert LARGEST_HEADER == 1024 * 1024
    write(tmp_path / "t", header_bytes=LARGEST_HEADER)
    assert torch.equal(open_tensors(tmp_path, "t").tensor("a").block(), load_file(tmp_path / "t")["a"])
    write(tmp_path / "t", header_bytes=LARGEST_HEADER + 1)
    with pytest.raises(InputError, match="expected a safetensors header, found a truncated or foreign file"):
        open_tensors(tmp_path, "t")


@pytest.mark.parametrize(("beyond", "refused"), [(0, False), (1, True)])
def test_a_header_may_fill_the_file_and_not_more(tmp_path: Path, beyond: int, refused: bool) -> None:
    text = json.dumps({}).encode().ljust(16)
    (tmp_path / "t").write_bytes((len(text) + beyond).to_bytes(8, "little") + text)
    if not refused:
        assert open_tensors(tmp_path, "t").tensors == {}
        return
    with pytest.raises(InputError, match="expected a safetensors header"):
        open_tensors(tmp_path, "t")


@pytest.mark.parametrize(("axes", "refused"), [(8, False), (9, True)])
def test_a_shape_has_at_most_eight_axes(tmp_path: Path, axes: int, refused: bool) -> None:
    text = json.dumps({"a": {"dtype": "F32", "shape": [1] * axes, "data_offsets": [0, 4]}}).encode()
    (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    if not refused:
        assert open_tensors(tmp_path, "t").tensor("a").shape == (1,) * axes
        return
    with pytest.raises(InputError, match="expected 'a' to have a shape"):
        open_tensors(tmp_path, "t")


@pytest.mark.parametrize("count", [-1, True, 2**60, 1.0, "1", None])
@pytest.mark.parametrize(("key", "what"), [("shape", "a shape"), ("data_offsets", "two data offsets")])
def test_what_is_no_count_is_refused(tmp_path: Path, count: object, key: str, what: str) -> None:
    tensor = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    tensor[key] = [count] if key == "shape" else [count, 4]
    text = json.dumps({"a": tensor}).encode()
    (tmp_path / "t").write_bytes(len(text).to_bytes(8, "little") + text + bytes(4))
    with pytest.raises(InputError, match=f"expected 'a' to have {what}"):
        open_tensors(tmp_path, "t")
