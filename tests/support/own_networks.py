"""Small networks of a user's own, for the tests of ``collect --network``."""

from pathlib import Path
from typing import Any

from exitbench.cache import Cache, Task
from exitbench.models import Network
from exitbench.models.own_network.collect_network import collect_network

ROWS, CLASSES = 11, ("red", "green", "blue")

CNN = """
import torch
from torch import nn
from exitbench.models import Network

class TwoBlocks(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 6, 3, stride=2, padding=1)])
        self.heads = nn.ModuleList([nn.Linear(4, 3), nn.Linear(6, 3)])
        self.dropout = nn.Dropout(0.5)
        self.norm = nn.BatchNorm2d(4)

    def exits(self, image):
        for block, head in zip(self.blocks, self.heads):
            image = torch.relu(block(image))
            image = self.norm(image) if image.shape[1] == 4 else image
            features = self.dropout(image.mean(dim=(2, 3)))
            yield head(features), features, {"spread": features.std(dim=1), "extremes": features.sort(dim=1)[0][:, ::3]}

def images(split):
    generator = torch.Generator().manual_seed(len(split))
    return torch.randn(11, 1, 8, 8, generator=generator)

def network(split):
    torch.manual_seed(0)
    model = TwoBlocks()
    rows = images(split)
    return Network(
        exits=model.exits, batch=lambda numbers: rows[list(numbers)], classes=("red", "green", "blue"),
        labels=[number % 3 for number in range(11)], ids=range(100, 111), groups=[number // 2 for number in range(11)],
        heads=list(model.heads), module=model,
    )

not_callable = 3

def broken(split):
    raise KeyError(split)

def something_else(split):
    return {"logits": None}
"""


def collected(network: Network, out: Path, **options: Any) -> Cache:
    collect_network(network, Task("colours", CLASSES), "dev", out, name="plain", **options)
    return Cache(out)
