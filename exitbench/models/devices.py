"""Where the work runs: one process or several, which device, which precision."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal, get_args

import torch
from accelerate import Accelerator, PartialState
from accelerate.state import AcceleratorState

from exitbench.errors import InputError, did_you_mean

Precision = Literal["auto", "float32", "bfloat16", "float16"]

PARTICULAR = "ACCELERATE_TORCH_DEVICE"
"""Where accelerate looks for a particular device of a single process."""


def runs_on_cpu(device: str) -> bool:
    """Whether ``device`` (auto, cpu, cuda, cuda:N, mps) means the CPU here; an absent device is an error."""
    kind = device.partition(":")[0]
    accelerator = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
    if device == "auto":
        return accelerator is None
    if kind not in {"cpu", "cuda", "mps"}:
        raise InputError(f"expected --device auto, cpu, cuda, cuda:N or mps, found {device!r}")
    if kind != "cpu" and (accelerator is None or accelerator.type != kind):
        raise InputError(f"expected a {kind} device on this machine for --device {device}, found none")
    return kind == "cpu"


def processes(device: str = "auto") -> PartialState:
    """This process among those of ``accelerate launch``: its rank, their number, its device, a barrier.

    A process alone may ask for one device after the other; accelerate would go on with the first.
    """
    on_cpu = runs_on_cpu(device)
    with particular(device):
        state = PartialState(cpu=on_cpu)
        if state.num_processes == 1 and not is_device_meant(device, state.device, on_cpu=on_cpu):
            PartialState._reset_state()
            state = PartialState(cpu=on_cpu)
    return state


def is_device_meant(device: str, present: torch.device, *, on_cpu: bool) -> bool:
    """Whether a device is the one that ``device`` (auto, cpu, cuda, cuda:N, mps) means."""
    if on_cpu or device == "auto":
        return (present.type == "cpu") == on_cpu
    return present == torch.device(device) if ":" in device else present.type == device


@contextmanager
def particular(device: str) -> Iterator[None]:
    """Let accelerate find a device that is named with its number."""
    before = os.environ.get(PARTICULAR)
    if ":" in device:
        os.environ[PARTICULAR] = device
    try:
        yield
    finally:
        if before is None:
            os.environ.pop(PARTICULAR, None)
        else:
            os.environ[PARTICULAR] = before


def leave_group() -> None:
    """Dissolve the group of processes, if there is one, once all work is done.

    A process that exits while threads of its group still run may be ended by an abort, and its launcher then reports a
    failure of work that was complete.
    """
    PartialState().destroy_process_group()


def autocast_dtype(precision: str, device: torch.device) -> torch.dtype | None:
    """The half precision to compute in, or ``None`` for float32; by itself only on CUDA, on a CPU only bfloat16."""
    if precision not in get_args(Precision):
        near = did_you_mean(precision, get_args(Precision))
        raise InputError(f"expected --precision {', '.join(get_args(Precision))}, found {precision!r}.{near}")
    if precision == "float32" or (precision == "auto" and device.type != "cuda"):
        return None
    if device.type == "cpu" and precision == "bfloat16":
        return torch.bfloat16
    if device.type != "cuda":
        known = "float32, bfloat16 or auto" if device.type == "cpu" else "float32 or auto"
        raise InputError(f"expected --precision {known} on {device.type}, found {precision!r}")
    if precision == "auto":  # pragma: no cover - needs a GPU
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return torch.bfloat16 if precision == "bfloat16" else torch.float16


def accelerator_for(device: str, precision: str) -> Accelerator:
    """Accelerate's front for training: gradients across processes, loss scaling, autocast."""
    state = processes(device)
    mixed = {None: "no", torch.bfloat16: "bf16", torch.float16: "fp16"}[autocast_dtype(precision, state.device)]
    # One process may train in several precisions, one after the other; accelerate keeps the first one's.
    AcceleratorState._reset_state()
    return Accelerator(cpu=runs_on_cpu(device), mixed_precision=mixed)


def library_versions() -> dict[str, str]:
    """The versions that decide the numbers."""
    from importlib.metadata import version

    names: Any = ("exitbench", "torch", "transformers", "tokenizers", "safetensors")
    return {name: version(name) for name in names}
