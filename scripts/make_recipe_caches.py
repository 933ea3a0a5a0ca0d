"""Makes the caches of suite ``recipes``: MiniLM trained by every recipe with one budget, on SST-2 and on a pair task.

    python scripts/make_recipe_caches.py --glue GLUE --minilm-l6 DIR --work WORK [--rows N] [NAME ...]

``GLUE`` holds the task folders, ``DIR`` the pretrained encoder; ``WORK`` takes the trained models. Every network sees
the same rows equally often: a recipe of several stages has its passes divided among them. What is finished is kept, so
an interrupted run goes on where it was; a cache that is in ``fixtures/caches`` is not made again. The first seed of all
recipes comes first, then the other seeds, then the pair task. New caches stay in ``WORK/caches``: the fixtures have no
room for more. Beside them a suite for each task, ``WORK/recipes-TASK.toml``, asks the questions of suite ``recipes`` of
all networks that there are.
"""

import argparse
import contextlib
import json
import re
import sys
from dataclasses import dataclass
from pathlib import Path

from exitbench.cli.app import exit_code
from exitbench.models.training.recipe_registry import load_recipes

ROOT = Path(__file__).resolve().parents[1]
CACHES, SUITE = ROOT / "fixtures" / "caches", ROOT / "benchmarks" / "suites" / "recipes.toml"
ENCODER, DEPTH = "minilm-l6", 6
ROWS, PASSES = 500, 6
"""Training rows, and how often each is seen over all stages: divisible by the stages of every recipe."""
FOLDERS = {"sst2": "SST-2", "qqp": "QQP"}
"""The pair task is QQP. On held-out rows of its training file three passes over 500 rows end in an F1 of 65.8, where
calling every pair a duplicate gives 52.2; of MRPC one pass over 2,000 rows taught nothing beyond that (81.3, 81.0)."""
SEEDS = {"sst2": (1, 2, 3), "qqp": (1,)}
RECIPES = load_recipes()


@dataclass(frozen=True)
class RecipeNetwork:
    """MiniLM trained on a task by a recipe with a seed."""

    recipe: str
    task: str
    seed: int

    @property
    def name(self) -> str:
        return f"{ENCODER}-{self.recipe}-{self.task}-s{self.seed}"

    def train_words(self, rows: int) -> list[str]:
        """The training, as words after ``exitbench``."""
        stages = len(RECIPES.make(self.recipe).stages(DEPTH))
        words = ["train", "--model", ENCODER, "--task", self.task, "--data-dir", f"glue/{FOLDERS[self.task]}"]
        words += ["--out", f"models/{self.name}", "--recipe", self.recipe, "--epochs", str(PASSES // stages)]
        words += ["--max-train-rows", str(rows), "--max-dev-rows", "32", "--batch-size", "32", "--seed", str(self.seed)]
        words += ["--pooling", "mean", "--pooler", "per-layer", "--freeze-embeddings"]
        return [*words, "--learning-rate", "2e-4", "--head-learning-rate", "2e-3", "--resume"]

    @property
    def collect_words(self) -> list[str]:
        """The collection of dev, as words after ``exitbench``; a cache names the recipe as its model."""
        words = ["collect", "--model", f"models/{self.name}", "--task", self.task, "--split", "dev"]
        words += ["--data-dir", f"glue/{FOLDERS[self.task]}", "--out", f"caches/{self.name}-dev"]
        return [*words, "--name", f"{ENCODER}, {self.recipe}", "--features", "none", "--role", "test"]


NETWORKS = [
    *(RecipeNetwork(recipe, "sst2", SEEDS["sst2"][0]) for recipe in sorted(RECIPES.classes)),
    *(RecipeNetwork(recipe, "sst2", seed) for seed in SEEDS["sst2"][1:] for recipe in sorted(RECIPES.classes)),
    *(RecipeNetwork(recipe, "qqp", seed) for recipe in sorted(RECIPES.classes) for seed in SEEDS["qqp"]),
]


def run(work: Path, *words: str) -> None:
    """Run an exitbench command inside the work folder, in this process: loading torch takes as long as a short step."""
    sys.stderr.write(f"exitbench {' '.join(words)}\n")
    sys.argv = ["exitbench", *words]  # what a manifest shows as its command
    with contextlib.chdir(work):
        if code := exit_code(list(words), debug=False):
            raise SystemExit(code)


def make(network: RecipeNetwork, work: Path, rows: int) -> None:
    """Train a network and collect its dev rows, each step only if its result is not there yet."""
    if made(network, work) is not None:
        return
    if not (work / "models" / network.name).exists():
        run(work, *network.train_words(rows))
    run(work, *network.collect_words)
    run(work, "verify", f"caches/{network.name}-dev")


def made(network: RecipeNetwork, work: Path) -> Path | None:
    """The complete cache of a network, in the fixtures or in the work folder."""
    for folder in (CACHES, work / "caches"):
        manifest = folder / f"{network.name}-dev" / "manifest.json"
        if manifest.is_file() and json.loads(manifest.read_text(encoding="utf-8"))["complete"]:
            return manifest.parent.resolve()
    return None


def write_suites(work: Path) -> None:
    """A suite for each task, over every network that there is."""
    for task in FOLDERS:
        caches = [cache for network in NETWORKS if network.task == task and (cache := made(network, work))]
        listed = "".join(f"    {json.dumps(str(cache))},\n" for cache in sorted(caches))
        text = re.sub(r"(?s)(?<=caches = \[).*?(?=\])", f"\n{listed}".replace("\\", r"\\"), SUITE.read_text("utf-8"))
        (work / f"recipes-{task}.toml").write_text(text.replace('"recipes"', f'"recipes-{task}"'), encoding="utf-8")


def main() -> None:
    """Make the caches of the networks named on the command line, or of all of them."""
    names = {network.name: network for network in NETWORKS}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"such as {NETWORKS[0].name}")
    for option in ("glue", ENCODER, "work"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--rows", type=int, default=ROWS, help="training rows of each network")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(names):
        parser.error(f"no network {', '.join(sorted(unknown))}")
    work: Path = arguments.work
    for folder in ("models", "caches"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    for name, source in (("glue", arguments.glue), (ENCODER, arguments.minilm_l6)):
        link = work / name
        if not link.exists():
            link.symlink_to(source.resolve())
    for name in arguments.names or names:
        make(names[name], work, arguments.rows)
        write_suites(work)


if __name__ == "__main__":
    main()
