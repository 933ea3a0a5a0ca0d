"""The verbs that write, each on something tiny, with what it makes and when that looks complete."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from exitbench.cache import Cache, synthetic_cache
from exitbench.cli.app import main
from exitbench.errors import InputError
from tests.support.fault_server import TEMPORARY
from tests.support.hub_server import Hub, Repository
from tests.support.tiny_models import WORDS, save_backbone, tiny_model, write_reviews

SUITE = """
name = "small"
caches = ["cache"]
signals = ["deebert", "pabee"]
layers = ["1/2"]
speed_ups = [2.0]
primary_speed_up = 2.0
rates_speed_up = 2.0
losses = [5.0]
protocols = ["in-sample"]
resamples = 5
seed = 0
"""
ENDINGS = (".partial", ".lock", ".tmp")
"""How temporary names end."""

CHANGING = ("started", "seconds", "finished", "command", "arguments", "jobs", "git")
"""Keys of records that no two runs share."""


def is_run(folder: Path) -> bool:
    """Whether a folder says that it is a finished run."""
    record = folder / "run.json"
    return record.is_file() and bool(json.loads(record.read_text())["complete"])


def says_incomplete(folder: Path) -> bool:
    """Whether a folder holds a run whose record says that parts of it failed."""
    return (folder / "run.json").is_file() and not is_run(folder)


def is_cache(folder: Path) -> bool:
    """Whether a reader accepts a folder as a cache."""
    try:
        Cache(folder)
    except InputError:
        return False
    return True


@dataclass(frozen=True)
class Verb:
    """``words`` make ``made`` out of the materials that ``needs`` names.

    ``unfinished`` are files or folders that a stopped process may leave, because the next one goes on with them;
    ``again`` is what the next one needs in addition; ``workers`` says that other processes do most of the work;
    ``share`` is how many of the moments of the slow tests it meets.
    """

    name: str
    words: tuple[str, ...]
    made: str
    needs: tuple[str, ...] = ("cache",)
    complete: Callable[[Path], bool] = Path.exists
    unfinished: tuple[str, ...] = ()
    again: tuple[str, ...] = ()
    workers: bool = False
    share: float = 1.0


RUN = ("run", "cache", "--signals", "deebert", "--protocol", "in-sample", "--resamples", "5", "--out", "made")
TRAIN = ("train", "--model", "encoder", "--task", "sst2", "--data-dir", "reviews", "--out", "made")
COLLECT = ("collect", "--model", "model", "--data-dir", "reviews")
THRESHOLD = ("threshold", "cache", "--signal", "deebert", "--speed-up", "1.5", "--protocol", "in-sample")
INFER = ("infer", "texts.txt", "--model", "model", "--signal", "deebert")

VERBS = (
    Verb("run", (*RUN, "--jobs", "1"), "made", complete=is_run, unfinished=("made/.units",)),
    Verb(
        "run --jobs 2",
        (*RUN, "--jobs", "2"),
        "made",
        complete=is_run,
        unfinished=("made/.units",),
        again=("--jobs", "1"),
        workers=True,
        share=0.4,
    ),
    Verb(
        "run --force", (*RUN, "--jobs", "1", "--force"), "made", ("cache", "made"), is_run, ("made/.units",), share=0.4
    ),
    Verb("report", ("report", "made"), "made", ("cache", "made"), is_run),
    Verb(
        "site",
        ("site", "made", "--out", "pages"),
        "pages",
        ("cache", "made"),
        lambda folder: (folder / "index.html").exists(),
    ),
    Verb("table", ("table", "made", "--all"), "made", ("cache", "made"), is_run),
    Verb("figure", ("figure", "made", "trade-off", "--format", "svg"), "made", ("cache", "made"), is_run),
    Verb("check --update", ("check", "small.toml", "--update", "--jobs", "1"), "small.csv", ("cache", "small.toml")),
    Verb(
        "import",
        ("import", "arrays.npz", "--task", "x", "--split", "dev", "--shard-rows", "8", "--out", "made"),
        "made",
        ("arrays.npz",),
        is_cache,
        ("made/manifest.json",),
    ),
    Verb("compact", ("compact", "cache", "made"), "made", complete=is_cache),
    Verb(
        "derive",
        ("derive", "temperature", "--train", "cache", "--on", "cache", "--out", "made"),
        "made",
        complete=is_cache,
        unfinished=("made/manifest.json",),
    ),
    Verb(
        "cascade",
        ("cascade", "cache", "cache", "--costs", "1,4", "--out", "made"),
        "made",
        complete=is_cache,
        unfinished=("made/manifest.json",),
    ),
    Verb("pull", ("pull", "hf://datasets/me/cache", "made"), "made", (), is_cache, (".made.partial",)),
    Verb(
        "collect",
        (*COLLECT, "--shard-rows", "8", "--batch-size", "4", "--device", "cpu", "--out", "made"),
        "made",
        ("model", "reviews"),
        is_cache,
        ("made/manifest.json",),
    ),
    Verb(
        "train",
        (*TRAIN, "--epochs", "2", "--batch-size", "8", "--checkpoint-every", "3", "--device", "cpu"),
        "made",
        ("encoder", "reviews"),
        lambda folder: (folder / "training.json").exists(),
        ("made.training",),
        again=("--resume",),
    ),
    Verb("score", ("score", "cache", "--signal", "deebert", "--out", "made.parquet"), "made.parquet"),
    Verb("threshold", (*THRESHOLD, "--resamples", "20", "--out", "made.json"), "made.json"),
    Verb("cost", ("cost", "--out", "made"), "made", (), lambda folder: (folder / "cost.json").exists()),
    Verb(
        "infer",
        (*INFER, "--threshold", "0.3", "--batch-size", "2", "--device", "cpu", "--out", "made.csv"),
        "made.csv",
        ("model", "texts.txt"),
    ),
    Verb(
        "new-signal",
        ("new-signal", "my-margin", "--dir", "made"),
        "made",
        (),
        lambda folder: (folder / "test_my_margin.py").exists(),
    ),
)


def make_materials(folder: Path) -> None:
    """Everything that the verbs read, in ``folder``."""
    cache = synthetic_cache(folder / "cache", rows=60, layers=4, width=8, shard_rows=8, model="m", task="t")
    opened = Cache(cache)
    layers = range(1, opened.layers + 1)
    weight, bias = opened.head_tensors()
    np.savez(
        folder / "arrays.npz",
        labels=opened.labels,
        logits=np.stack([opened.logits(layer).numpy() for layer in layers]),
        features=np.stack([opened.features(layer).numpy() for layer in layers]),
        weight=np.stack([layer.numpy() for layer in weight]),
        bias=np.stack([layer.numpy() for layer in bias]),
    )
    (folder / "small.toml").write_text(SUITE)
    save_backbone(folder / "encoder", depth=2)
    tiny_model(folder / "model", depth=3)
    shutil.rmtree(folder / "model-encoder")
    write_reviews(folder / "reviews", {"train": 48, "dev": 30})
    (folder / "texts.txt").write_text("".join(f"{word} {other}\n" for word in WORDS for other in WORDS[:4]))


def finished_run(folder: Path, monkeypatch: Any) -> None:
    """A run named ``made`` beside the materials, for the verbs that begin with one."""
    monkeypatch.chdir(folder)
    try:
        main([*RUN, "--jobs", "1"])
    except SystemExit as ended:
        assert not ended.code, ended.code


def fill_hub(hub: Hub, folder: Path) -> None:
    """The cache of the materials on the stand-in of the hub."""
    files = {path.name: path.read_bytes() for path in (folder / "cache").iterdir()}
    hub.repositories["me/cache"] = Repository([files])


def copy_materials(source: Path, target: Path, names: tuple[str, ...]) -> None:
    """The materials that a verb needs, and a bystander that it has no business with."""
    (target / TEMPORARY).mkdir(parents=True)
    (target / "bystander.txt").write_text("precious\n")
    for name in names:
        copy = shutil.copytree if (source / name).is_dir() else shutil.copy2
        copy(source / name, target / name)


def snapshot(folder: Path) -> dict[str, bytes]:
    """Every file below a folder; of records, what two runs share. Temporary files are ``temporary_files``."""
    files = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_file() and not is_temporary(name):
            files[name] = path.read_bytes()
            if path.suffix == ".json":
                files[name] = _stable_text(files[name])
    return files


def is_temporary(name: str) -> bool:
    """Whether a file's path says that it is unfinished."""
    parts = name.split("/")
    return parts[0] == TEMPORARY or any(part == ".views" or part.endswith(ENDINGS) for part in parts)


def temporary_files(folder: Path) -> list[str]:
    """The files and folders that have a temporary name, and everything in the folder for temporary files."""
    names = [path.relative_to(folder).as_posix() for path in folder.rglob("*")]
    return [name for name in names if is_temporary(name) and name != TEMPORARY and not name.endswith(".lock")]


def _stable_text(content: bytes) -> bytes:
    """A record without what no two runs share; as it is where it was cut, which only unfinished work may be."""
    try:
        return json.dumps(_stable(json.loads(content)), sort_keys=True).encode()
    except ValueError:
        return content


def _stable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _stable(item) for key, item in value.items() if key not in CHANGING}
    return [_stable(item) for item in value] if isinstance(value, list) else value
