"""Makes the caches of MiniLM on intents, on SST-2 split by sentence, and of several seeds: trains, collects, checks.

    python scripts/make_text_caches.py --data DATA --minilm-l6 DIR --work WORK [--train-only] [NAME ...]

``DATA`` is what ``make_splits.py`` made, ``DIR`` the pretrained encoder; ``WORK`` takes the trained models. What is
finished there is kept, so an interrupted run goes on where it was; a cache that is in ``fixtures/caches`` is not made
again. Commands run inside ``WORK`` with relative names, so that no path of a machine ends in a manifest.
``--choose`` trains the candidate recipes on a few training rows and prints which is best on others.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from exitbench.cli.app import exit_code

CACHES = Path(__file__).resolve().parents[1] / "fixtures" / "caches"

MEMORY_KEPT = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""Half of the kernel's time in training goes to memory that is given back and asked for again; read at the start."""

ENCODER = "minilm-l6"
ROWS_SEEN, SEED_ROWS_SEEN = 9_000, 1_500
"""How many training rows a network sees, a random part or several passes over fewer rows: seed 0, and the other seeds,
which are there to be many."""

SEEDS = range(1, 6)
"""The seeds of the networks that are compared with each other, all of one recipe."""

CANDIDATES = {"lower": ("1e-4", "1e-3"), "higher": ("2e-4", "2e-3")}
"""Learning rates of encoder and heads among which the recipe was chosen."""

CHOSEN, SEED_LOSS = "higher", "two-stage"
CHOOSING_TASKS, CHOOSING_ROWS = ("sst2", "banking77"), 2_000


@dataclass(frozen=True)
class Task:
    """Where a task's rows are: ``rows`` to train on; GLUE's own files, or CSV with columns of our own."""

    name: str
    rows: int
    glue: bool = False

    @property
    def words(self) -> list[str]:
        """The options that name the columns."""
        return [] if self.glue else ["--text", "text", "--label", "label"]

    def epochs(self, rows_seen: int) -> int:
        """How many passes over the rows come nearest to ``rows_seen`` of them."""
        return max(1, round(rows_seen / self.rows))


TASKS = {
    task.name: task
    for task in (
        Task("clinc150", 15_000),
        Task("banking77", 8_999),
        Task("sst2", 35_800),
        Task("rte", 2_190, glue=True),
        Task("mrpc", 3_268, glue=True),
        Task("qnli", 7_999, glue=True),
        Task("mnli", 7_999, glue=True),
        Task("qqp", 7_999, glue=True),
    )
}


SEED_TASKS = ("sst2", "clinc150", "banking77", "qqp", "mnli", "mrpc", "qnli", "rte")
"""From the shortest texts to the longest: what a network costs to train."""


@dataclass(frozen=True)
class Split:
    """A split to collect from a task's networks: a file of its folder, and how the cache's name ends.

    ``folder`` is what stands before the task in the folder's name: there are folders with parts of large splits.
    """

    file: str
    suffix: str
    role: str = "test"
    grouped: bool = False
    labelled: bool = True
    features: str = "none"
    seeds: tuple[int, ...] | None = None
    folder: str = ""


WITH_FEATURES = (
    Split("calibration", "calibration", "calibration", features="float16", seeds=(0,)),
    Split("features-dev", "features-dev", features="float16", seeds=(0,)),
)
SEED_PARTS = (
    Split("dev", "dev", seeds=tuple(SEEDS), folder="part-"),
    Split("calibration", "calibration", "calibration", seeds=tuple(SEEDS), folder="part-"),
)
SPLITS = {
    "clinc150": (
        Split("dev", "dev", seeds=(0,)),
        *WITH_FEATURES,
        Split("oos", "oos", labelled=False, seeds=(0,)),
        *SEED_PARTS,
    ),
    "banking77": (Split("dev", "dev", seeds=(0,)), *WITH_FEATURES, *SEED_PARTS),
    "sst2": (
        Split("dev", "dev", seeds=tuple(SEEDS)),
        Split("calibration", "calibration", "calibration", grouped=True, seeds=tuple(SEEDS)),
        Split("phrases", "phrases-dev", grouped=True, seeds=(0,)),
        Split("phrases-calibration", "phrases-calibration", "calibration", grouped=True, seeds=(0,)),
    ),
}
USUAL = (Split("dev", "dev"), Split("calibration", "calibration", "calibration"))
IN_PARTS = (
    Split("dev", "dev", folder="part-"),
    Split("calibration", "calibration", "calibration", folder="part-"),
)
SPLITS |= dict.fromkeys(("qqp", "mnli", "qnli"), IN_PARTS)


@dataclass(frozen=True)
class Network:
    """MiniLM trained on a task with a seed."""

    task: Task
    seed: int

    @property
    def name(self) -> str:
        return f"{ENCODER}-{self.task.name}-s{self.seed}"

    @property
    def train_words(self) -> list[str]:
        """The training, as words after ``exitbench``."""
        words = common(self.task, f"data/{self.task.name}", f"models/{self.name}", CHOSEN, self.seed)
        rows, shown = (SEED_ROWS_SEEN, 32) if self.seed in SEEDS else (ROWS_SEEN, 200)
        words += ["--recipe", SEED_LOSS] if self.seed in SEEDS else []
        words += ["--epochs", str(self.task.epochs(rows)), "--max-train-rows", str(rows)]
        return ["train", *words, "--max-dev-rows", str(shown)]

    @property
    def splits(self) -> tuple[Split, ...]:
        splits = SPLITS.get(self.task.name, USUAL)
        return tuple(split for split in splits if split.seeds is None or self.seed in split.seeds)

    def cache_name(self, split: Split) -> str:
        """The name of the cache of a split."""
        return f"{self.name}-{split.suffix}"

    def collect_words(self, split: Split) -> list[str]:
        """The collection of a split, as words after ``exitbench``."""
        name = self.cache_name(split)
        words = ["collect", "--model", f"models/{self.name}", "--task", self.task.name, "--split", split.file]
        words += ["--data-dir", f"data/{split.folder}{self.task.name}", "--out", f"caches/{name}", "--name", ENCODER]
        words += ["--features", split.features, "--role", split.role]
        if not self.task.glue:
            words += ["--text", "text", "--id", "id"]
            words += ["--label", "label"] if split.labelled else []
            words += ["--group", "group"] if split.grouped else []
        return words


NETWORKS = [
    *(Network(TASKS[task], 0) for task in ("clinc150", "banking77", "sst2")),
    *(Network(TASKS[task], seed) for task in SEED_TASKS for seed in SEEDS),
]


def common(task: Task, data: str, model: str, recipe: str, seed: int) -> list[str]:
    """What every training shares."""
    rate, head_rate = CANDIDATES[recipe]
    words = ["--model", ENCODER, "--task", task.name, "--data-dir", data, *task.words, "--out", model]
    words += ["--pooling", "mean", "--pooler", "per-layer", "--freeze-embeddings", "--batch-size", "32"]
    return [*words, "--learning-rate", rate, "--head-learning-rate", head_rate, "--seed", str(seed)]


def run(work: Path, *words: str) -> None:
    """Run an exitbench command inside the work folder, in this process: loading torch takes as long as a short step."""
    sys.stderr.write(f"exitbench {' '.join(words)}\n")
    sys.argv = ["exitbench", *words]  # what a manifest shows as its command
    with contextlib.chdir(work):
        if code := exit_code(list(words), debug=False):
            raise SystemExit(code)


def choose(work: Path) -> None:
    """Train every candidate on a few rows and print the mean over tasks of its last layer's score on other rows."""
    means = {}
    for recipe, rates in CANDIDATES.items():
        scores = []
        for name in CHOOSING_TASKS:
            model = f"models/choosing-{recipe}-{name}"
            if not (work / model).exists():
                words = common(TASKS[name], f"data/choosing-{name}", model, recipe, 0)
                run(work, "train", *words, "--epochs", "1", "--max-train-rows", str(CHOOSING_ROWS), "--resume")
            history = json.loads((work / model / "training.json").read_text(encoding="utf-8"))["history"]
            scores.append(history[-1]["scores"][-1])
        means[recipe] = sum(scores) / len(scores)
        listed = ", ".join(f"{task} {score:.1f}" for task, score in zip(CHOOSING_TASKS, scores, strict=True))
        sys.stdout.write(f"{recipe} (learning rates {rates[0]} and {rates[1]}): {listed}\n")
    best = max(means, key=lambda recipe: means[recipe])
    if best != CHOSEN:
        raise SystemExit(f"expected {CHOSEN} to be the best recipe, found {best}")


def make(network: Network, work: Path, train_only: bool) -> None:
    """Train a network and collect its splits, each step only if its result is not there yet."""
    missing = [split for split in network.splits if not (CACHES / network.cache_name(split)).exists()]
    if not missing:
        return
    if not (work / "models" / network.name).exists():
        run(work, *network.train_words, "--resume")
    for split in () if train_only else missing:
        name = network.cache_name(split)
        if not complete(work / "caches" / name):
            run(work, *network.collect_words(split))
        run(work, "verify", f"caches/{name}")
        shutil.move(work / "caches" / name, CACHES / name)


def complete(cache: Path) -> bool:
    """Whether a cache is there to its end."""
    manifest = cache / "manifest.json"
    return manifest.is_file() and bool(json.loads(manifest.read_text(encoding="utf-8"))["complete"])


def main() -> None:
    """Make the caches of the networks named on the command line, or of all of them."""
    names = {network.name: network for network in NETWORKS}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    for option in ("data", ENCODER, "work"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--choose", action="store_true", help="compare the candidate recipes")
    parser.add_argument("--train-only", action="store_true", help="train, collect nothing yet")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no recipe for {', '.join(sorted(unknown))}")
    work: Path = arguments.work
    (work / "models").mkdir(parents=True, exist_ok=True)
    for name, source in (("data", arguments.data), (ENCODER, arguments.minilm_l6)):
        link = work / name
        if not link.exists():
            link.symlink_to(source.resolve())
    if arguments.choose:
        choose(work)
        return
    for name in arguments.names or names:
        make(names[name], work, arguments.train_only)


if __name__ == "__main__":
    if not MEMORY_KEPT.keys() <= os.environ.keys():
        again = subprocess.run([sys.executable, *sys.argv], env={**os.environ, **MEMORY_KEPT}, check=False)
        raise SystemExit(again.returncode)
    main()
