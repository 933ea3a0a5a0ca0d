"""The splits behind the caches: phrases go with their sentence, nothing is on two sides."""

import json
from pathlib import Path
from types import ModuleType

import pytest

from tests.support.scripts import script


@pytest.fixture(scope="module")
def splits() -> ModuleType:
    return script("make_splits")


def words(*texts: str) -> list[tuple[str, ...]]:
    return [tuple(text.split()) for text in texts]


def test_a_sentence_is_a_phrase_that_is_part_of_no_other(splits: ModuleType) -> None:
    phrases = words("a fine film", "fine film", "film", "a dull film", "dull", "no fun", "fun")
    sentences, inside = splits.sentences_of(phrases)
    assert set(sentences) == set(words("a fine film", "a dull film", "no fun"))
    by_hand = {
        phrase: {s for s, sentence in enumerate(sentences) if f" {' '.join(phrase)} " in f" {' '.join(sentence)} "}
        for phrase in phrases
    }
    assert {phrase: inside[phrase] for phrase in phrases} == by_hand
    assert len(inside[("film",)]) == 2


def test_a_scored_phrase_inside_a_training_sentence_is_refused_in_whole_words(splits: ModuleType) -> None:
    splits.require_no_part(["fun"], ["no funny film"], "phrase")
    with pytest.raises(SystemExit, match="expected no phrase, found 'fine film'"):
        splits.require_no_part(["dull", "fine film"], ["a fine film"], "phrase")


def sst2(folder: Path, sentences: int) -> Path:
    """Every sentence, its end and its last two words, which no other has, and words that many have."""
    lines = ["sentence\tlabel"]
    for number in range(sentences):
        lines += [f"the film {number} is w{number} good\t1", f"is w{number} good\t0", f"w{number} good\t1", "good\t1"]
    (folder / "SST-2").mkdir(parents=True)
    (folder / "SST-2" / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (folder / "SST-2" / "dev.tsv").write_text("sentence\tlabel\nan odd one \t0\n", encoding="utf-8")
    return folder


def rows(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()[1:]]


def test_the_sides_of_sst2_share_no_sentence_and_drop_what_several_share(splits: ModuleType, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    splits.split_sst2(sst2(tmp_path, 60), out)
    sides = [{row[3] for row in rows(out / f"{name}.csv")} for name in ("train", "phrases", "phrases-calibration")]
    assert all(sides)
    assert sum(map(len, sides)) == len(set.union(*sides)) == 60
    texts = [row[1] for name in ("train", "phrases", "phrases-calibration") for row in rows(out / f"{name}.csv")]
    assert len(texts) == 180
    assert "good" not in texts
    record = json.loads((out / "split.json").read_text(encoding="utf-8"))
    assert (record["sentences"], record["dropped"]) == (60, {"several sentences": 1})
    assert all(row[1].startswith("the film") for row in rows(out / "calibration.csv"))


def test_a_group_on_two_sides_is_refused(splits: ModuleType) -> None:
    row = splits.Row(1, "text", "label", 7)
    with pytest.raises(SystemExit, match="found group 7 in both"):
        splits.require_apart({"train": [row], "dev": [row]})


def test_which_rows_are_kept_is_a_function_of_their_ids_alone(splits: ModuleType) -> None:
    several = [splits.Row(number, "text", "label", number) for number in range(50)]
    kept = splits.lowest(several, 10, "task")
    assert kept == sorted(kept, key=lambda row: row.id)
    assert {row.id for row in splits.lowest(several[::-1], 10, "task")} == {row.id for row in kept}
    assert {row.id for row in splits.lowest(several, 10, "other")} != {row.id for row in kept}
