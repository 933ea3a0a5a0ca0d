"""ResNet-20 and ResNet-56 for CIFAR-10 with an exit after every block, as ``exitbench collect --network`` takes them.

The functions at the end are called inside the work folder of ``make_cifar_caches.py``: they read the weights that it
trained from ``models/`` and the decoded images from ``data/cifar10/``. The residual networks are those of He et al.
(2016) for CIFAR: three stages of 16, 32 and 64 channels, shortcuts without weights.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.nn import functional

from exitbench.models import Network

MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
"""Of the colours, as the pretrained weights expect them."""

DATA, MODELS = Path("data/cifar10"), Path("models")


class Block(nn.Module):
    """Two convolutions and a shortcut; where the image shrinks, the shortcut drops pixels and adds empty channels."""

    def __init__(self, before: int, channels: int) -> None:
        super().__init__()
        self.stride, self.added = (1, 0) if before == channels else (2, (channels - before) // 2)
        self.conv1 = nn.Conv2d(before, channels, 3, stride=self.stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)

    def forward(self, image: Tensor) -> Tensor:
        inner = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(image)))))
        if self.stride == 2:
            image = functional.pad(image[:, :, ::2, ::2], (0, 0, 0, 0, self.added, self.added))
        return functional.relu(inner + image)


class ResNet(nn.Module):
    """A residual network of ``6 n + 2`` layers with a linear head on the mean of every block's channels."""

    def __init__(self, layers: int, classes: int = 10) -> None:
        super().__init__()
        per_stage = (layers - 2) // 6
        widths = [channels for channels in (16, 32, 64) for _ in range(per_stage)]
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.blocks = nn.ModuleList(
            Block(before, channels) for before, channels in zip([16, *widths], widths, strict=False)
        )
        self.heads = nn.ModuleList(nn.Linear(width, classes) for width in widths)

    def exits(self, images: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Logits [n, classes] and head inputs [n, width] of images [n, 3, 32, 32], one exit after another."""
        state = functional.relu(self.bn1(self.conv1(images)))
        for block, head in zip(self.blocks, self.heads, strict=True):
            state = block(state)
            features = state.mean(dim=(2, 3))
            yield head(features), features

    def forward(self, images: Tensor) -> Tensor:
        """The logits of all exits, [exits, n, classes]."""
        return torch.stack([logits for logits, _ in self.exits(images)])


def load_images(split: str) -> dict[str, Tensor]:
    """The images [n, 3, 32, 32] uint8, labels [n] and ids [n] of a split."""
    with np.load(DATA / f"{split}.npz", allow_pickle=False) as arrays:
        return {name: torch.from_numpy(arrays[name]) for name in ("images", "labels", "ids")}


def normalised(images: Tensor) -> Tensor:
    """Images as the network reads them, float32."""
    mean, deviation = (torch.tensor(values).view(1, 3, 1, 1) for values in (MEAN, DEVIATION))
    return (images.float() / 255 - mean) / deviation


def _network(layers: int, weights: str, split: str) -> Network:
    model = ResNet(layers)
    model.load_state_dict(load_file(MODELS / f"{weights}.safetensors"))
    rows = load_images(split)
    classes = (DATA / "classes.txt").read_text(encoding="utf-8").split()

    def batch(numbers: Sequence[int]) -> Tensor:
        return normalised(rows["images"][list(numbers)])

    return Network(
        exits=model.exits,
        batch=batch,
        classes=classes,
        labels=rows["labels"],
        ids=rows["ids"],
        heads=list(model.heads),  # type: ignore[arg-type]
        module=model,
    )


def resnet20(split: str) -> Network:
    """ResNet-20, its heads trained on frozen features."""
    return _network(20, "resnet20-cifar10", split)


def resnet20_joint(split: str) -> Network:
    """ResNet-20, all exits trained together."""
    return _network(20, "resnet20-joint-cifar10", split)


def resnet56(split: str) -> Network:
    """ResNet-56, its heads trained on frozen features."""
    return _network(56, "resnet56-cifar10", split)
