"""Splits the tasks' texts into rows to train on, to calibrate on and to score, before any network sees them.

    python scripts/make_splits.py --glue GLUE --intents INTENTS --out DATA

``GLUE`` holds the task folders (SST-2, RTE, ...), ``INTENTS`` CLINC150 and BANKING77. ``DATA`` gets a folder of CSV or
TSV files for each task. A hash of the row's number (of the text or sentence, where rows share one) decides where a row
goes, so that the same inputs always give the same files; a folder that is there is left as it is. What was split is
checked before it takes its name: no row on two sides, and for SST-2 no scored phrase inside a training sentence.
"""

import argparse
import csv
import hashlib
import json
import shutil
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

TEST_ROWS, CALIBRATION_ROWS, FEATURE_ROWS = 2_000, 1_000, 1_000
"""The most rows of a test and a calibration split with many classes, and of test rows that are kept with features."""

PHRASE_SHARE, CALIBRATION_SHARE = 0.34, 0.10
"""The shares of SST-2's sentences whose phrases are scored, and are calibrated on."""


@dataclass(frozen=True)
class Row:
    """A text with its class: ``id`` is the row's number in the source, ``group`` the number of what it is a part of."""

    id: int
    text: str
    label: str
    group: int


def hashed(*parts: object) -> float:
    """A number in [0, 1) that is a function of ``parts`` alone."""
    digest = hashlib.sha256(":".join(map(str, parts)).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def lowest(rows: Sequence[Row], number: int, *salt: object) -> list[Row]:
    """The ``number`` rows whose ids have the lowest hashes, in their own order."""
    kept = {row.id for row in sorted(rows, key=lambda row: hashed(*salt, row.id))[:number]}
    return [row for row in rows if row.id in kept]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """A CSV file with the columns id, text, label, group."""
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["id", "text", "label", "group"])
        writer.writerows([row.id, row.text, row.label, row.group] for row in rows)


def require_apart(splits: dict[str, list[Row]]) -> None:
    """An error where a row or a group is on two sides of those that must not share any."""
    seen: dict[int, str] = {}
    for name, rows in splits.items():
        if not rows:
            raise SystemExit(f"expected rows in {name}, found none")
        for group in {row.group for row in rows}:
            if group in seen:
                raise SystemExit(f"expected {name} and {seen[group]} to share nothing, found group {group} in both")
            seen[group] = name


def texts_once(rows: Sequence[Row]) -> list[Row]:
    """The rows whose text, in small letters, was not there before."""
    first: dict[str, int] = {}
    for row in rows:
        first.setdefault(row.text.lower(), row.id)
    return [row for row in rows if first[row.text.lower()] == row.id]


def split_clinc150(intents: Path, folder: Path) -> None:
    """CLINC150: its own training rows; its validation rows to calibrate on; test rows; out-of-scope rows as ``oos``."""
    source = json.loads((intents / "clinc150.json").read_text(encoding="utf-8"))
    start, splits = 0, {}
    for name in ("train", "val", "test", "oos_test"):
        splits[name] = [Row(start + k, text, label, start + k) for k, (text, label) in enumerate(source[name])]
        start += len(source[name])
    train_texts = {row.text.lower() for row in splits["train"]}
    unseen = {
        name: [row for row in texts_once(splits[name]) if row.text.lower() not in train_texts]
        for name in ("val", "test", "oos_test")
    }
    calibration = lowest(unseen["val"], CALIBRATION_ROWS, "clinc150", "calibration")
    test = lowest(unseen["test"], TEST_ROWS, "clinc150", "test")
    require_apart({"train": splits["train"], "calibration": calibration, "dev": test, "oos": unseen["oos_test"]})
    write_rows(folder / "train.csv", splits["train"])
    write_rows(folder / "calibration.csv", calibration)
    write_rows(folder / "dev.csv", test)
    write_rows(folder / "features-dev.csv", lowest(test, FEATURE_ROWS, "clinc150", "test"))
    write_rows(folder / "oos.csv", unseen["oos_test"])


def split_banking77(intents: Path, folder: Path) -> None:
    """BANKING77: a thousand training rows are held out to calibrate on; at most 2,000 test rows."""
    rows, start = {}, 0
    for name in ("train", "test"):
        with (intents / f"banking77-{name}.csv").open(encoding="utf-8", newline="") as stream:
            records = list(csv.DictReader(stream))
        rows[name] = [
            Row(start + k, " ".join(record["text"].split()), record["category"], start + k)
            for k, record in enumerate(records)
        ]
        start += len(records)
    train = texts_once(rows["train"])
    calibration = lowest(train, CALIBRATION_ROWS, "banking77", "calibration")
    held_out = {row.id for row in calibration}
    train = [row for row in train if row.id not in held_out]
    train_texts = {row.text.lower() for row in train}
    unseen = [row for row in texts_once(rows["test"]) if row.text.lower() not in train_texts]
    test = lowest(unseen, TEST_ROWS, "banking77", "test")
    require_apart({"train": train, "calibration": calibration, "dev": test})
    write_rows(folder / "train.csv", train)
    write_rows(folder / "calibration.csv", calibration)
    write_rows(folder / "dev.csv", test)
    write_rows(folder / "features-dev.csv", lowest(test, FEATURE_ROWS, "banking77", "test"))


def sentences_of(phrases: Iterable[tuple[str, ...]]) -> tuple[list[tuple[str, ...]], dict[tuple[str, ...], set[int]]]:
    """The maximal phrases, those that are no part of another, and for every run of words the maximal ones it is in."""
    sentences: list[tuple[str, ...]] = []
    inside: dict[tuple[str, ...], set[int]] = defaultdict(set)
    for phrase in sorted(set(phrases), key=lambda words: (-len(words), words)):
        if phrase in inside:
            continue
        for start in range(len(phrase)):
            for stop in range(start + 1, len(phrase) + 1):
                inside[phrase[start:stop]].add(len(sentences))
        sentences.append(phrase)
    return sentences, inside


def require_no_part(phrases: Iterable[str], sentences: Iterable[str], what: str) -> None:
    """An error where a phrase occurs, in whole words, in a sentence; by plain search in the text of all of them."""
    text = "\n".join(f" {sentence} " for sentence in sentences)
    for phrase in phrases:
        if f" {phrase} " in text:
            raise SystemExit(f"expected no {what}, found {phrase!r}")


def split_sst2(glue: Path, folder: Path) -> None:
    """SST-2 by sentence: phrases to train on, whole sentences and phrases to calibrate on, phrases and dev to score."""
    names = {"0": "negative", "1": "positive"}
    lines = (glue / "SST-2" / "train.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    labels: dict[tuple[str, ...], set[str]] = defaultdict(set)
    first: dict[tuple[str, ...], int] = {}
    for number, line in enumerate(lines):
        text, label = line.rsplit("\t", 1)
        words = tuple(text.split())
        labels[words].add(label)
        first.setdefault(words, number)
    sentences, inside = sentences_of(first)
    sides: dict[str, list[Row]] = {"train": [], "calibration": [], "phrases": []}
    dropped: Counter[str] = Counter()
    for words, number in first.items():
        if len(labels[words]) > 1:
            dropped["two labels"] += 1
        elif len(inside[words]) > 1:
            dropped["several sentences"] += 1
        else:
            (sentence,) = inside[words]
            side = sentence_side(" ".join(sentences[sentence]))
            sides[side].append(Row(number, " ".join(words), names[min(labels[words])], sentence))
    require_apart(sides)
    whole = {side: [" ".join(sentences[s]) for s in sorted({row.group for row in sides[side]})] for side in sides}
    for scored, other in (("phrases", "train"), ("calibration", "train"), ("phrases", "calibration")):
        for phrases, others in ((scored, other), (other, scored)):
            message = f"{phrases} row inside a sentence of {others}"
            require_no_part((row.text for row in sides[phrases]), whole[others], message)
    dev_lines = (glue / "SST-2" / "dev.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")[1:]
    dev = [Row(k, " ".join(text.split()), names[label], k) for k, (text, label) in enumerate(map(_tabbed, dev_lines))]
    calibration = {words: row for row in sides["calibration"] if (words := row.text) in set(whole["calibration"])}
    write_rows(folder / "train.csv", sides["train"])
    write_rows(folder / "dev.csv", dev)
    write_rows(folder / "calibration.csv", calibration.values())
    write_rows(folder / "phrases.csv", sides["phrases"])
    write_rows(folder / "phrases-calibration.csv", lowest(sides["calibration"], TEST_ROWS, "sst2", "calibration"))
    counts = {side: {"rows": len(rows), "sentences": len(whole[side])} for side, rows in sides.items()}
    record = {"rows": len(lines), "phrases": len(first), "sentences": len(sentences), "dropped": dropped, **counts}
    (folder / "split.json").write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def _tabbed(line: str) -> tuple[str, str]:
    text, label = line.rsplit("\t", 1)
    return text, label


def sentence_side(sentence: str) -> str:
    """Which side a sentence, and every phrase of it, is on."""
    value = hashed("sst2", sentence)
    if value < PHRASE_SHARE:
        return "phrases"
    return "calibration" if value < PHRASE_SHARE + CALIBRATION_SHARE else "train"


GLUE_TASKS = {"rte": ("RTE", 1, 300), "mrpc": ("MRPC", 3, 400), "qnli": ("QNLI", 2, 1_000), "mnli": ("MNLI", 1, 1_000)}
GLUE_TASKS["qqp"] = ("QQP", 1, 1_000)
"""Folder, column of a text that several rows may share, and training rows held out to calibrate on (about)."""


def split_glue(task: str, glue: Path, folder: Path) -> None:
    """A task of GLUE: its dev rows are scored, some training rows held out; rows with one first text stay together."""
    name, column, number = GLUE_TASKS[task]
    header, *lines = (glue / name / "train.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
    values = [hashed(task, line.split("\t")[column].lower()) for line in lines]
    limit = sorted(values)[number]
    held_out = [line for line, value in zip(lines, values, strict=True) if value < limit]
    train = [line for line, value in zip(lines, values, strict=True) if value >= limit]
    shared = {line.split("\t")[column] for line in held_out} & {line.split("\t")[column] for line in train}
    if shared:
        raise SystemExit(f"expected no text on both sides, found {shared.pop()!r}")
    for split, part in (("train", train), ("calibration", held_out)):
        (folder / f"{split}.tsv").write_text("\n".join([header, *part]) + "\n", encoding="utf-8")
    shutil.copyfile(glue / name / "dev.tsv", folder / "dev.tsv")


PART_ROWS = {
    "clinc150": {"dev": 500, "calibration": 300},
    "banking77": {"dev": 1_000, "calibration": 500},
    "qqp": {"dev": 1_000, "calibration": 500},
    "mnli": {"dev": 1_000, "calibration": 500},
    "qnli": {"dev": 2_000, "calibration": 500},
}
"""How many rows of large splits are left for networks of which there are many."""

WIDE_PART_ROWS = {"banking77": {"dev": 500, "calibration": 300}}
"""And for a wide network with many classes, whose heads alone fill megabytes in every cache."""


def split_parts(task: str, rows: dict[str, int], data: Path, folder: Path) -> None:
    """Parts of a task's scored and calibration rows under the same names; a hash of the row decides."""
    for split, number in rows.items():
        (source,) = (data / task).glob(f"{split}.?sv")
        header, *lines = source.read_text(encoding="utf-8").rstrip("\n").split("\n")
        kept = set(sorted(lines, key=lambda line: hashed(task, "part of", split, line))[:number])
        part = [header, *(line for line in lines if line in kept)]
        (folder / source.name).write_text("\n".join(part) + "\n", encoding="utf-8")


CHOOSING_ROWS = {"train": 4_000, "dev": 1_000}
"""Training rows to try a recipe on, and others to choose it by."""

CHOOSING_TASKS = ("sst2", "banking77", "mnli", "mrpc", "rte")


def split_for_choosing(task: str, data: Path, folder: Path) -> None:
    """Training rows again, a part to train on and a part to choose a recipe by; none is calibrated on or scored."""
    if task in GLUE_TASKS:
        header, rows = training_lines(task, data)
    else:
        header, rows = "", training_rows(task, data)
    parts: dict[str, list[Row]] = {"train": [], "dev": []}
    for row in sorted(rows, key=lambda row: (hashed("choosing", task, row.group), row.id)):
        part = "dev" if hashed("choosing", task, row.group) < CHOOSING_ROWS["dev"] / 5_000 else "train"
        if len(parts[part]) < CHOOSING_ROWS[part]:
            parts[part].append(row)
    require_apart(parts)
    for name, part_rows in parts.items():
        if header:
            text = "\n".join([header, *(row.text for row in part_rows)]) + "\n"
            (folder / f"{name}.tsv").write_text(text, encoding="utf-8")
        else:
            write_rows(folder / f"{name}.csv", part_rows)


def training_rows(task: str, data: Path) -> list[Row]:
    """The training rows of a task that has columns of our own."""
    with (data / task / "train.csv").open(encoding="utf-8", newline="") as stream:
        return [Row(int(r["id"]), r["text"], r["label"], int(r["group"])) for r in csv.DictReader(stream)]


def training_lines(task: str, data: Path) -> tuple[str, list[Row]]:
    """The header and the training lines of a task of GLUE; lines that share their first text are a group."""
    column = GLUE_TASKS[task][1]
    header, *lines = (data / task / "train.tsv").read_text(encoding="utf-8").rstrip("\n").split("\n")
    groups: dict[str, int] = {}
    texts = [line.split("\t")[column].lower() for line in lines]
    return header, [
        Row(k, line, "", groups.setdefault(text, k)) for k, (line, text) in enumerate(zip(lines, texts, strict=True))
    ]


def main() -> None:
    """Make every folder that is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    for name in ("glue", "intents", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    arguments = parser.parse_args()
    out: Path = arguments.out
    jobs = {
        "sst2": lambda folder: split_sst2(arguments.glue, folder),
        "clinc150": lambda folder: split_clinc150(arguments.intents, folder),
        "banking77": lambda folder: split_banking77(arguments.intents, folder),
        **{task: lambda folder, task=task: split_glue(task, arguments.glue, folder) for task in GLUE_TASKS},
        **{
            f"choosing-{task}": lambda folder, task=task: split_for_choosing(task, out, folder)
            for task in CHOOSING_TASKS
        },
        **{
            f"{prefix}-{task}": lambda folder, task=task, rows=rows: split_parts(task, rows, out, folder)
            for prefix, parts in (("part", PART_ROWS), ("wide-part", WIDE_PART_ROWS))
            for task, rows in parts.items()
        },
    }
    for name, split in jobs.items():
        if (out / name).exists():
            continue
        draft = out / f".{name}.partial"
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)
        split(draft)
        draft.rename(out / name)
        sizes = {
            path.name: sum(1 for _ in path.open(encoding="utf-8")) - 1
            for path in sorted(draft.parent.glob(f"{name}/*.?sv"))
        }
        sys.stdout.write(f"{name}: {', '.join(f'{file} {size:,}' for file, size in sizes.items())}\n")


if __name__ == "__main__":
    main()
