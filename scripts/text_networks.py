"""Which networks on texts there are, and the words of the commands that train them and collect their caches.

The networks with seeds are one recipe throughout: first MNLI, one pass over its training rows; every other task starts
from the MNLI network of the same seed. The networks with seed 0 were made before and start from the encoder.
"""

from dataclasses import dataclass, replace

SMALL, LARGE = "minilm-l6", "mpnet-base"
ROWS_SEEN, FIRST_ROWS_SEEN, SEED_ROWS_SEEN = 9_000, 7_999, 4_000
"""How many training rows a network sees, a random part or several passes over fewer rows: seed 0; the networks with
seeds on the task that comes first; and on the others."""

SEEDS = {SMALL: (1, 2, 3, 4, 5), LARGE: (1, 2, 3)}
"""The seeds of the networks that are compared with each other, all of one recipe."""

RATES = {"lowest": ("3e-5", "5e-4"), "lower": ("1e-4", "1e-3"), "higher": ("2e-4", "2e-3")}
"""Learning rates of encoder and heads."""

RECIPES = ("sum", "two-stage")
"""The ways to train the exits among which that of the networks with seeds was chosen."""

CANDIDATES = {SMALL: ("lower", "higher"), LARGE: ("lowest", "lower")}
"""The rates among which an encoder's were chosen."""

CHOSEN_RECIPE, CHOSEN_RATES = "sum", {SMALL: "higher", LARGE: "lower"}
CHOOSING_TASKS, CHOOSING_ROWS = ("sst2", "banking77", "mnli", "mrpc", "rte"), 2_000
FIRST_TASK = "mnli"


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

SEED_TASKS = {
    SMALL: (FIRST_TASK, "sst2", "banking77", "qqp", "mrpc", "qnli", "rte"),
    LARGE: (FIRST_TASK, "mrpc", "rte", "sst2", "qqp", "qnli"),
}
"""MNLI first, since the others start from its networks; then from the shortest texts to the longest."""


@dataclass(frozen=True)
class Split:
    """A split to collect from a task's networks: a file of its folder, and how the cache's name ends.

    ``folder`` is what stands before the task in the folder's name: there are folders with parts of large splits.
    ``features`` are those of the seeds ``with_features``.
    """

    file: str
    suffix: str
    role: str = "test"
    grouped: bool = False
    labelled: bool = True
    with_features: tuple[int, ...] = ()
    folder: str = ""


DEV, CALIBRATION = Split("dev", "dev"), Split("calibration", "calibration", "calibration")
SENTENCES = Split("calibration", "calibration", "calibration", grouped=True)
PHRASES = (
    Split("phrases", "phrases-dev", grouped=True),
    Split("phrases-calibration", "phrases-calibration", "calibration", grouped=True),
)
WITH_FEATURES = (
    Split("calibration", "calibration", "calibration", with_features=(0,)),
    Split("features-dev", "features-dev", with_features=(0,)),
)
PARTS = (Split("dev", "dev", folder="part-"), Split("calibration", "calibration", "calibration", folder="part-"))
FIRST_SPLITS = {
    "clinc150": (DEV, *WITH_FEATURES, Split("oos", "oos", labelled=False)),
    "banking77": (DEV, *WITH_FEATURES),
    "sst2": PHRASES,
}
"""What is collected from the 6-layer networks with seed 0."""

FIRST_WIDE_SPLITS = {
    "banking77": tuple(replace(part, folder="wide-part-") for part in PARTS),
    "sst2": PHRASES,
}
"""What is collected from the 12-layer networks with seed 0."""

SEED_SPLITS = {
    "sst2": (DEV, SENTENCES),
    **dict.fromkeys(("rte", "mrpc"), (DEV, CALIBRATION)),
    **dict.fromkeys(("banking77", "qqp", "qnli"), PARTS),
    "mnli": (
        Split("dev", "dev", folder="part-", with_features=(1,)),
        Split("calibration", "calibration", "calibration", folder="part-", with_features=(1,)),
    ),
}
"""What is collected from the networks with seeds; features of the 6-layer network on MNLI with seed 1."""


@dataclass(frozen=True)
class Network:
    """An encoder trained on a task with a seed."""

    task: Task
    seed: int
    encoder: str = SMALL

    @property
    def name(self) -> str:
        return f"{self.encoder}-{self.task.name}-s{self.seed}"

    @property
    def begins_from(self) -> str:
        """The folder whose encoder the training begins from."""
        own = not self.seed or self.task.name == FIRST_TASK
        return self.encoder if own else f"models/{self.encoder}-{FIRST_TASK}-s{self.seed}"

    @property
    def train_words(self) -> list[str]:
        """The training, as words after ``exitbench``."""
        words = common(self.task, self.begins_from, CHOSEN_RATES[self.encoder])
        words += ["--data-dir", f"data/{self.task.name}", "--out", f"models/{self.name}", "--seed", str(self.seed)]
        seeds = FIRST_ROWS_SEEN if self.task.name == FIRST_TASK else SEED_ROWS_SEEN
        rows, shown = (seeds, 32) if self.seed else (ROWS_SEEN, 200)
        words += ["--epochs", str(self.task.epochs(rows)), "--max-train-rows", str(rows)]
        words += ["--max-dev-rows", str(shown)]
        return ["train", *words, *(["--precision", "bfloat16"] if self.seed or self.encoder == LARGE else [])]

    @property
    def splits(self) -> tuple[Split, ...]:
        first = FIRST_SPLITS if self.encoder == SMALL else FIRST_WIDE_SPLITS
        return (SEED_SPLITS if self.seed else first)[self.task.name]

    def cache_name(self, split: Split) -> str:
        """The name of the cache of a split."""
        return f"{self.name}-{split.suffix}"

    def collect_words(self, split: Split) -> list[str]:
        """The collection of a split, as words after ``exitbench``."""
        name = self.cache_name(split)
        words = ["collect", "--model", f"models/{self.name}", "--task", self.task.name, "--split", split.file]
        words += ["--data-dir", f"data/{split.folder}{self.task.name}", "--out", f"caches/{name}"]
        features = self.encoder == SMALL and self.seed in split.with_features
        words += ["--name", self.encoder, "--features", "float16" if features else "none", "--role", split.role]
        if not self.task.glue:
            words += ["--text", "text", "--id", "id"]
            words += ["--label", "label"] if split.labelled else []
            words += ["--group", "group"] if split.grouped else []
        return words


NETWORKS = [
    *(Network(TASKS[task], 0) for task in ("clinc150", "banking77", "sst2")),
    *(Network(TASKS[task], seed) for task in SEED_TASKS[SMALL] for seed in SEEDS[SMALL]),
    *(Network(TASKS[task], seed, LARGE) for seed in SEEDS[LARGE] for task in SEED_TASKS[LARGE]),
    *(Network(TASKS[task], 0, LARGE) for task in ("sst2", "banking77")),
]


def common(task: Task, model: str, rates: str) -> list[str]:
    """What every training shares."""
    rate, head_rate = RATES[rates]
    words = ["--model", model, "--task", task.name, *task.words, "--pooling", "mean", "--pooler", "per-layer"]
    return [
        *words,
        *("--freeze-embeddings", "--batch-size", "32"),
        *("--learning-rate", rate, "--head-learning-rate", head_rate),
    ]
