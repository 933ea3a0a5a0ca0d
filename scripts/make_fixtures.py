"""Makes every cache in ``fixtures/caches`` again: trains each network, collects its answers.

    python scripts/make_fixtures.py --data-dir GLUE --mpnet-base DIR --minilm-l6 DIR --work WORK [NAME ...]

``GLUE`` holds the task folders (SST-2, QNLI, ...), the other two are the pretrained encoders. ``WORK``
takes the trained models; what is finished there is kept, so an interrupted run goes on where it was.
Commands run inside ``WORK`` with relative names, so that no path of a machine ends in a manifest.
"""

import argparse
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CACHES = Path(__file__).resolve().parents[1] / "fixtures" / "caches"

COMMON = [
    *("--pooling", "mean"),
    *("--pooler", "per-layer"),
    "--freeze-embeddings",
    *("--learning-rate", "3e-5"),
    *("--head-learning-rate", "5e-4"),
    *("--checkpoint-every", "100"),
    *("--seed", "0"),
]


@dataclass(frozen=True)
class Recipe:
    """How one cache is made."""

    encoder: str
    task: str
    epochs: int
    rows: int | None = None
    dev_rows: int | None = None
    batch: int = 32
    loss: str = "sum"
    features: str = "none"
    shard_rows: int = 4096

    @property
    def name(self) -> str:
        """The cache's name, which is also its folder's."""
        return f"{self.encoder}-{self.task}-dev"


RECIPES = [
    Recipe("mpnet-base", "sst2", epochs=1, rows=12_000, features="float16", shard_rows=256),
    Recipe("minilm-l6", "sst2", epochs=1, rows=12_000),
    Recipe("minilm-l6", "qnli", epochs=1),
    Recipe("mpnet-base", "rte", epochs=2, batch=16),
    Recipe("mpnet-base", "mnli", epochs=1, rows=4_000, batch=16),
    Recipe("mpnet-base", "qnli", epochs=1, dev_rows=500, batch=16),
    Recipe("mpnet-base", "mrpc", epochs=2, rows=1_800, batch=16, loss="depth-weighted"),
    Recipe("mpnet-base", "qqp", epochs=1, rows=6_000, batch=16, loss="two-stage"),
]


def train_words(recipe: Recipe) -> list[str]:
    """The training behind a cache, as words after ``exitbench``."""
    model = f"models/{recipe.encoder}-{recipe.task}"
    words = ["train", "--model", recipe.encoder, "--task", recipe.task, "--data-dir", "glue", "--out", model]
    words += [*COMMON, "--epochs", str(recipe.epochs), "--batch-size", str(recipe.batch)]
    words += ["--recipe", recipe.loss] if recipe.loss != "sum" else []
    words += ["--max-train-rows", str(recipe.rows)] if recipe.rows else []
    words += ["--max-dev-rows", str(recipe.dev_rows)] if recipe.dev_rows else []
    return words


def run(work: Path, *words: str) -> None:
    """One exitbench command inside the work folder."""
    sys.stdout.write(f"$ exitbench {' '.join(words)}\n")
    sys.stdout.flush()
    subprocess.run([sys.executable, "-m", "exitbench", *words], cwd=work, check=True)


def make(recipe: Recipe, work: Path) -> None:
    """Train, collect and put in place one cache, each step only if its result is not there yet."""
    model, cache = f"models/{recipe.encoder}-{recipe.task}", f"caches/{recipe.name}"
    if not (work / model).exists():
        resume = ["--resume"] if (work / f"{model}.training").exists() else []
        run(work, *train_words(recipe), *resume)
    if not (CACHES / recipe.name).exists():
        words = ["--model", model, "--task", recipe.task, "--split", "dev", "--data-dir", "glue", "--out", cache]
        shards = ["--features", recipe.features, "--shard-rows", str(recipe.shard_rows)]
        run(work, "collect", *words, *shards, "--name", recipe.encoder)
        run(work, "verify", cache)
        shutil.move(work / cache, CACHES / recipe.name)


def main() -> None:
    """Make the caches named on the command line, or all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(recipe.name for recipe in RECIPES))
    for name in ("data-dir", "mpnet-base", "minilm-l6", "work"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - {recipe.name for recipe in RECIPES}:
        parser.error(f"no recipe for {', '.join(sorted(unknown))}")
    arguments.work.mkdir(parents=True, exist_ok=True)
    for name, source in (
        ("glue", arguments.data_dir),
        ("mpnet-base", arguments.mpnet_base),
        ("minilm-l6", arguments.minilm_l6),
    ):
        link = arguments.work / name
        if not link.exists():
            link.symlink_to(source.resolve())
    # Half of the kernel's time in training goes to memory that is given back and asked for again.
    os.environ |= {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
    for recipe in RECIPES:
        if not arguments.names or recipe.name in arguments.names:
            make(recipe, arguments.work)


if __name__ == "__main__":
    main()
