"""Makes the caches of MiniLM and MPNet on intents, SST-2 by sentence and GLUE, of several seeds: trains and collects.

    python scripts/make_text_caches.py --data DATA --minilm-l6 DIR --mpnet-base DIR --work WORK [NAME ...]

``DATA`` is what ``make_splits.py`` made, the two ``DIR`` the pretrained encoders; ``WORK`` takes the trained models.
What is finished there is kept, so an interrupted run goes on where it was; a cache that is in ``fixtures/caches`` is
not made again. Which networks there are, and their commands, is in ``text_networks.py``. Commands run inside ``WORK``
with relative names, so that no path of a machine ends in a manifest. ``--choose ENCODER`` trains the candidate recipes
and rates on a few training rows of each task and prints how each does on others; names are then those of tasks.
"""

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import text_networks as networks

from exitbench.cli.app import exit_code

CACHES = Path(__file__).resolve().parents[1] / "fixtures" / "caches"

MEMORY_KEPT = {"MALLOC_MMAP_THRESHOLD_": "4294967296", "MALLOC_TRIM_THRESHOLD_": "8589934592"}
"""Half of the kernel's time in training goes to memory that is given back and asked for again; read at the start."""


def run(work: Path, *words: str) -> None:
    """Run an exitbench command inside the work folder, in this process: loading torch takes as long as a short step."""
    sys.stderr.write(f"exitbench {' '.join(words)}\n")
    sys.argv = ["exitbench", *words]  # what a manifest shows as its command
    with contextlib.chdir(work):
        if code := exit_code(list(words), debug=False):
            raise SystemExit(code)


def choose(work: Path, encoder: str, tasks: Sequence[str]) -> None:
    """Train every candidate on a few rows of each task; print its scores by layer on other training rows."""
    recipes = networks.RECIPES if encoder == networks.SMALL else (networks.CHOSEN_RECIPE,)
    for recipe, rates in ((recipe, rates) for recipe in recipes for rates in networks.CANDIDATES[encoder]):
        for name in tasks:
            model = f"models/choosing-{encoder}-{recipe}-{rates}-{name}"
            if not (work / model).exists():
                words = networks.common(networks.TASKS[name], encoder, rates)
                words += ["--data-dir", f"data/choosing-{name}", "--out", model, "--epochs", "1", "--recipe", recipe]
                words += ["--max-train-rows", str(networks.CHOOSING_ROWS), "--precision", "bfloat16", "--resume"]
                run(work, "train", *words)
            history = json.loads((work / model / "training.json").read_text(encoding="utf-8"))["history"]
            listed = " ".join(f"{score:.1f}" for score in history[-1]["scores"])
            sys.stdout.write(f"{encoder}, {recipe}, rates {' and '.join(networks.RATES[rates])}, {name}: {listed}\n")
            sys.stdout.flush()


def make(network: networks.Network, work: Path, train_only: bool) -> None:
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
    names = {network.name: network for network in networks.NETWORKS}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(names))
    encoders = networks.SMALL, networks.LARGE
    for option in ("data", *encoders, "work"):
        parser.add_argument(f"--{option}", type=Path, required=True)
    parser.add_argument("--choose", choices=encoders, help="compare the candidates for an encoder")
    parser.add_argument("--train-only", action="store_true", help="train, collect nothing yet")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(networks.CHOOSING_TASKS if arguments.choose else names):
        parser.error(f"no recipe for {', '.join(sorted(unknown))}")
    work: Path = arguments.work
    (work / "models").mkdir(parents=True, exist_ok=True)
    sources = {"data": arguments.data, encoders[0]: arguments.minilm_l6, encoders[1]: arguments.mpnet_base}
    for name, source in sources.items():
        link = work / name
        if not link.exists():
            link.symlink_to(source.resolve())
    if arguments.choose:
        choose(work, arguments.choose, arguments.names or networks.CHOOSING_TASKS)
        return
    for name in arguments.names or names:
        make(names[name], work, arguments.train_only)


if __name__ == "__main__":
    if not MEMORY_KEPT.keys() <= os.environ.keys():
        again = subprocess.run([sys.executable, *sys.argv], env={**os.environ, **MEMORY_KEPT}, check=False)
        raise SystemExit(again.returncode)
    main()
