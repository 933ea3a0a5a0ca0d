"""Which device a process works on: the one that was asked for last, not the first that it ever had."""

import os
from collections.abc import Iterator

import pytest
import torch
from accelerate import PartialState

from exitbench.models import devices
from exitbench.models.devices import PARTICULAR, is_device_meant, processes


@pytest.fixture(autouse=True)
def first_on_the_cpu() -> Iterator[None]:
    assert processes("cpu").device == torch.device("cpu")
    yield
    PartialState._reset_state()


def test_a_process_alone_may_ask_for_one_device_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    # The device "meta" stands in for a GPU, which the machines of these tests have not.
    with monkeypatch.context() as patch:
        patch.setattr(devices, "runs_on_cpu", lambda device: False)
        patch.setenv(PARTICULAR, "meta")
        assert processes("meta").device == torch.device("meta")
        assert processes("auto").device == torch.device("meta")
    assert processes("cpu").device == torch.device("cpu")


def test_a_numbered_device_is_that_of_one_call_only() -> None:
    assert processes("cpu:0").device.type == "cpu"
    assert PARTICULAR not in os.environ
    PartialState._reset_state()
    assert processes("cpu").device == torch.device("cpu")


@pytest.mark.parametrize(
    ("device", "present", "asked"),
    [
        ("cuda", "cuda:1", True),
        ("cuda:1", "cuda:1", True),
        ("cuda:0", "cuda:1", False),
        ("cuda", "cpu", False),
        ("auto", "cuda:0", True),
        ("auto", "cpu", False),  # of a machine with a GPU
        ("mps", "cuda:0", False),
    ],
)
def test_a_present_device_is_compared_with_what_was_asked(device: str, present: str, asked: bool) -> None:
    assert is_device_meant(device, torch.device(present), on_cpu=False) == asked
    assert not is_device_meant("cpu", torch.device("cuda:0"), on_cpu=True)
    assert is_device_meant("auto", torch.device("cpu"), on_cpu=True)
