"""Makes the caches of residual networks on CIFAR-10: decodes, fine-tunes, trains the heads, collects, checks.

    python scripts/make_cifar_caches.py --vision VISION --work WORK [--train-only] [NAME ...]

``VISION`` holds ``cifar10-jpeg.npz`` and the pretrained ``resnet*.th``; ``WORK`` takes decoded images and weights.
What is finished there is kept, so an interrupted run goes on where it was; a cache in ``fixtures/caches`` is not made
again. The pretrained networks saw raw training images, here all images are JPEG: a short fine-tuning adapts them. They
know the training images by heart, so rows to calibrate on are test images, which no scored row is among.
Needs Pillow beside exitbench.
"""

import argparse
import hashlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.nn import functional

SCRIPTS = Path(__file__).resolve().parent
CACHES = SCRIPTS.parent / "fixtures" / "caches"
sys.path.insert(0, str(SCRIPTS))

from cifar_networks import ResNet, normalised  # noqa: E402

CALIBRATION_ROWS, FEATURE_ROWS, HEAD_ROWS = 1_000, 1_000, 10_000
BLUR_RADIUS = 1.0
CHECKPOINTS = {20: "resnet20-12fca82f.th", 56: "resnet56-4bfd9763.th"}
NETWORKS = {"resnet20": 20, "resnet20-joint": 20, "resnet56": 56}
STEPS = {20: 150, 56: 60}
"""Steps of fine-tuning, with 64 images each."""

JOINT_STEPS = 200
WITH_FEATURES = "resnet20"
"""The network whose calibration rows keep their features."""

SPLITS = {"dev": "test", "calibration": "calibration", "features-dev": "test", "blur": "test"}
"""The caches of every network, with the role of their rows."""


def hash_order(ids: np.ndarray, salt: str) -> np.ndarray:
    """Positions of ids [n] in the order of their hashes."""
    return np.argsort([hashlib.sha256(f"{salt}:{number}".encode()).hexdigest() for number in ids])


def decoded(data: bytes, blur: float = 0.0) -> np.ndarray:
    """A JPEG file as [3, 32, 32] uint8, blurred by a Gaussian of some radius in pixels."""
    from PIL import Image, ImageFilter

    image = Image.open(io.BytesIO(data)).convert("RGB")
    if blur:
        image = image.filter(ImageFilter.GaussianBlur(blur))
    return np.asarray(image, dtype=np.uint8).transpose(2, 0, 1)


def prepare(vision: Path, folder: Path) -> None:
    """Decode the images of every split into ``folder``."""
    if folder.exists():
        return
    draft = folder.with_name(f".{folder.name}.partial")
    shutil.rmtree(draft, ignore_errors=True)
    draft.mkdir(parents=True)
    with np.load(vision / "cifar10-jpeg.npz", allow_pickle=False) as arrays:
        source = {name: arrays[name] for name in arrays.files}
    (draft / "classes.txt").write_text("\n".join(map(str, source["classes"])) + "\n", encoding="utf-8")

    def write(split: str, origin: str, rows: np.ndarray, blur: float = 0.0) -> None:
        data, stops = source[f"{origin}_jpeg"].tobytes(), np.cumsum(source[f"{origin}_length"])
        files = (data[stops[row] - source[f"{origin}_length"][row] : stops[row]] for row in rows)
        images = np.stack([decoded(file, blur) for file in files])
        labels = source[f"{origin}_label"][rows].astype(np.int64)
        np.savez(draft / f"{split}.npz", images=images, labels=labels, ids=rows.astype(np.int64))

    test = np.arange(len(source["test_label"]))
    order = hash_order(test, "cifar10")
    dev = np.sort(order[CALIBRATION_ROWS:])
    write("train", "train", np.arange(len(source["train_label"])))
    write("calibration", "test", np.sort(order[:CALIBRATION_ROWS]))
    write("dev", "test", dev)
    write("features-dev", "test", np.sort(order[CALIBRATION_ROWS : CALIBRATION_ROWS + FEATURE_ROWS]))
    write("blur", "test", dev, BLUR_RADIUS)
    draft.rename(folder)


def pretrained(vision: Path, layers: int) -> ResNet:
    """The network with the pretrained weights, which give the last head; the others are random."""
    torch.manual_seed(0)
    state = torch.load(vision / CHECKPOINTS[layers], map_location="cpu", weights_only=True)["state_dict"]
    model = ResNet(layers)
    per_stage = (layers - 2) // 6
    weights = {}
    for key, value in state.items():
        name = key.removeprefix("module.")
        if name.startswith("layer"):
            stage, block, rest = name.removeprefix("layer").split(".", 2)
            name = f"blocks.{(int(stage) - 1) * per_stage + int(block)}.{rest}"
        weights[name.replace("linear.", f"heads.{3 * per_stage - 1}.")] = value
    missing, unknown = model.load_state_dict(weights, strict=False)
    if unknown or any(not name.startswith("heads.") for name in missing):
        raise SystemExit(f"expected the weights of a ResNet-{layers}, found {unknown} too many, {missing} missing")
    return model


def training_batches(images: Tensor, labels: Tensor, steps: int, size: int = 64) -> Iterator[tuple[Tensor, Tensor]]:
    """Random images, shifted by up to four pixels and mirrored half of the time."""
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        rows = torch.randint(len(images), (size,), generator=generator)
        padded = functional.pad(images[rows], (4, 4, 4, 4))
        top, left = (int(shift) for shift in torch.randint(9, (2,), generator=generator))
        batch = padded[:, :, top : top + 32, left : left + 32]
        mirrored = torch.rand(size, generator=generator) < 0.5
        batch = torch.where(mirrored.view(-1, 1, 1, 1), batch.flip(3), batch)
        yield normalised(batch), labels[rows]


def tune(model: ResNet, images: Tensor, labels: Tensor, steps: int, rate: float, *, joint: bool) -> None:
    """Train all weights by SGD: by the last exit's cross entropy, or by the sum over all exits (``joint``)."""
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9, nesterov=True, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    model.train()
    for step, (batch, answers) in enumerate(training_batches(images, labels, steps), 1):
        logits = model(batch) if joint else model(batch)[-1:]
        loss = sum((functional.cross_entropy(layer, answers) for layer in logits), torch.zeros(()))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        if step % 25 == 0:
            sys.stderr.write(f"step {step} of {steps}: loss {float(loss):.3f}\n")
    model.eval()


@torch.no_grad()
def block_features(model: ResNet, images: Tensor) -> list[Tensor]:
    """The head inputs of images at every exit, each [n, width]."""
    parts = [[x for _, x in model.exits(normalised(images[at : at + 250]))] for at in range(0, len(images), 250)]
    return [torch.cat(exits) for exits in zip(*parts, strict=True)]


def train_heads(model: ResNet, images: Tensor, labels: Tensor) -> None:
    """Logistic regression (L-BFGS, weight decay 1e-4) for every exit but the last, on frozen features."""
    features = block_features(model, images)
    for head, inputs in list(zip(model.heads, features, strict=True))[:-1]:
        assert isinstance(head, nn.Linear)
        mean, deviation = inputs.mean(0), inputs.std(0) + 1e-6
        scaled = nn.Linear(inputs.shape[1], 10)
        optimizer = torch.optim.LBFGS(scaled.parameters(), max_iter=200, line_search_fn="strong_wolfe")

        def closure(inputs: Tensor = (inputs - mean) / deviation, scaled: nn.Linear = scaled) -> Tensor:
            loss = functional.cross_entropy(scaled(inputs), labels) + 1e-4 * scaled.weight.square().sum()
            scaled.zero_grad()
            loss.backward()
            return loss

        optimizer.step(closure)
        with torch.no_grad():
            # The scaling becomes a part of the head, which then reads the features as they are.
            head.weight.copy_(scaled.weight / deviation)
            head.bias.copy_(scaled.bias - (scaled.weight / deviation) @ mean)


def train(name: str, vision: Path, work: Path) -> None:
    """Make the weights of a network, if they are not there yet."""
    target = work / "models" / f"{name}-cifar10.safetensors"
    if target.exists():
        return
    layers = NETWORKS[name]
    with np.load(work / "data/cifar10/train.npz", allow_pickle=False) as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    rows = torch.from_numpy(hash_order(np.arange(len(labels)), "heads")[:HEAD_ROWS].copy())
    if name.endswith("-joint"):
        train(name.removesuffix("-joint"), vision, work)
        model = loaded(layers, work / "models" / f"{name.removesuffix('-joint')}-cifar10.safetensors")
        tune(model, images, labels, JOINT_STEPS, 0.02, joint=True)
    else:
        model = pretrained(vision, layers)
        tune(model, images, labels, STEPS[layers], 0.01, joint=False)
        train_heads(model, images[rows], labels[rows])
    draft = target.with_name(f".{target.name}.partial")
    save_file(model.state_dict(), draft)
    draft.rename(target)


def loaded(layers: int, path: Path) -> ResNet:
    """A network with weights that were saved here."""
    model = ResNet(layers)
    model.load_state_dict(load_file(path))
    return model


def run(work: Path, *words: str) -> None:
    """Run an exitbench command inside the work folder."""
    sys.stderr.write(f"exitbench {' '.join(words)}\n")
    subprocess.run([sys.executable, "-m", "exitbench", *words], cwd=work, check=True)


def collect(name: str, split: str, role: str, work: Path) -> None:
    """Collect, check and put in place one cache, if it is not there yet."""
    cache = f"{name}-cifar10-{split}"
    if (CACHES / cache).exists():
        return
    manifest = work / "caches" / cache / "manifest.json"
    if not manifest.is_file() or not json.loads(manifest.read_text(encoding="utf-8"))["complete"]:
        kept = split == "features-dev" or (split == "calibration" and name == WITH_FEATURES)
        features = "float16" if kept else "none"
        words = ["--network", f"scripts/cifar_networks.py:{name.replace('-', '_')}", "--task", "cifar10"]
        words += ["--split", split, "--out", f"caches/{cache}", "--name", name, "--role", role, "--features", features]
        run(work, "collect", *words, "--batch-size", "250")
    run(work, "verify", f"caches/{cache}")
    shutil.move(work / "caches" / cache, CACHES / cache)


def main() -> None:
    """Make the caches of the networks named on the command line, or of all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(NETWORKS))
    parser.add_argument("--vision", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--train-only", action="store_true", help="train, collect nothing yet")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(NETWORKS):
        parser.error(f"no recipe for {', '.join(sorted(unknown))}")
    work: Path = arguments.work.resolve()
    (work / "models").mkdir(parents=True, exist_ok=True)
    if not (work / "scripts").exists():
        (work / "scripts").symlink_to(SCRIPTS)
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
    prepare(arguments.vision.resolve(), work / "data" / "cifar10")
    for name in arguments.names or NETWORKS:
        train(name, arguments.vision.resolve(), work)
        for split, role in [] if arguments.train_only else SPLITS.items():
            collect(name, split, role, work)


if __name__ == "__main__":
    main()
