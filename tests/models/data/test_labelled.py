"""Labelled texts from disk and hub: what is read, in which class order, and what is refused."""

import json
from pathlib import Path

import datasets
import pytest

from exitbench.cache import TASKS
from exitbench.errors import InputError
from exitbench.models.data.glue import FORMATS, task_card
from exitbench.models.data.labelled import Columns, Examples, collected_columns, load_examples, own_columns

GLUE = {
    "sst2": ("SST-2/dev.tsv", "sentence\tlabel\na fine film \t1\ndull\t0\n", ["a fine film", "dull"], None, [1, 0]),
    "mrpc": (
        "MRPC/dev.tsv",
        '\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t7\t8\tHe said " no .\tHe refused .\n',
        ['He said " no .'],
        ["He refused ."],
        [1],
    ),
    "qqp": (
        "QQP/dev.tsv",
        "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate\n0\t1\t2\twhy?\thow?\t0\n",
        ["why?"],
        ["how?"],
        [0],
    ),
    "qnli": (
        "QNLI/dev.tsv",
        "index\tquestion\tsentence\tlabel\n0\twho?\tshe.\tnot_entailment\n",
        ["who?"],
        ["she."],
        [1],
    ),
    "rte": ("RTE/dev.tsv", "index\tsentence1\tsentence2\tlabel\n0\ta\tb\tentailment\r\n", ["a"], ["b"], [0]),
    "mnli": (
        "MNLI/dev_matched.tsv",
        "index\tgenre\tsentence1\tsentence2\tlabel1\tgold_label\n0\tx\ta\tb\tneutral\tcontradiction\n",
        ["a"],
        ["b"],
        [2],
    ),
}


@pytest.mark.parametrize("task", FORMATS)
def test_glue_files_are_read_by_header_in_glues_class_order(tmp_path: Path, task: str) -> None:
    name, content, texts, pairs, labels = GLUE[task]
    path = tmp_path / name
    path.parent.mkdir()
    path.write_text(content, encoding="utf-8")
    expected = Examples(texts, pairs, labels, TASKS[task].classes)
    assert load_examples(task, "dev", tmp_path) == expected
    assert load_examples(task, "dev", path.parent) == expected


@pytest.mark.parametrize("task", FORMATS)
def test_the_hub_gives_the_same_examples(tmp_path: Path, task: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, _, texts, pairs, labels = GLUE[task]
    task_format = FORMATS[task]
    # A real dataset made here in the hub's layout; only the download is replaced.
    columns: dict[str, list[object]] = {
        task_format.hub_text: list(texts),
        "label": list(labels),
        "idx": list(range(len(texts))),
    }
    if task_format.hub_text_pair:
        columns[task_format.hub_text_pair] = list(pairs or [])
    requests: list[tuple[str, str, str]] = []

    def download(dataset: str, name: str, split: str) -> datasets.Dataset:
        requests.append((dataset, name, split))
        return datasets.Dataset.from_dict(columns)

    monkeypatch.setattr(datasets, "load_dataset", download)
    assert load_examples(task, "dev", None) == Examples(texts, pairs, labels, TASKS[task].classes)
    load_examples(task, "train", None)
    dev = "validation_matched" if task == "mnli" else "validation"
    assert requests == [("nyu-mll/glue", task, dev), ("nyu-mll/glue", task, "train")]


def test_a_hub_out_of_reach_is_one_clear_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(datasets.config, "HF_HUB_OFFLINE", True)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path)
    with pytest.raises(InputError, match=r"expected rte .validation. from the hub, or --data-dir"):
        load_examples("rte", "dev", None)


def csv_file(folder: Path, split: str, text: str) -> Path:
    (folder / f"{split}.csv").write_text(text, encoding="utf-8")
    return folder


def test_own_csv_takes_its_classes_from_the_labels(tmp_path: Path) -> None:
    csv_file(tmp_path, "train", 'query,intent,extra\n"pay, now",pay\nwhere is it,find,x\nhello,greet,\n')
    examples = load_examples("intents", "train", tmp_path, Columns("query", None, "intent"))
    assert examples == Examples(["pay, now", "where is it", "hello"], None, [2, 0, 1], ("find", "greet", "pay"))


def test_numbers_as_classes_are_in_numeric_order(tmp_path: Path) -> None:
    csv_file(tmp_path, "train", "t,y\na,10\nb,9\nc,-1\n")
    assert load_examples("stars", "train", tmp_path, Columns("t", None, "y")).classes == ("-1", "9", "10")


def test_json_lines_give_pairs_and_skip_blank_lines(tmp_path: Path) -> None:
    records = [{"a": "one", "b": "two", "y": 1, "z": None}, {"a": "three", "b": "four", "y": 0}]
    (tmp_path / "dev.jsonl").write_text("\n\n".join(json.dumps(record) for record in records))
    examples = load_examples("pairs", "dev", tmp_path, Columns("a", "b", "y"))
    assert examples == Examples(["one", "three"], ["two", "four"], [1, 0], ("0", "1"))


def test_the_classes_of_a_model_rule_over_those_found(tmp_path: Path) -> None:
    csv_file(tmp_path, "test", "t,y\na,yes\nb,yes\n")
    examples = load_examples("x", "test", tmp_path, Columns("t", None, "y"), ("yes", "no"))
    assert examples.classes == ("yes", "no")
    assert examples.labels == [0, 0]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("t,label\na,1\n", r"expected a column 'y' in .*test.csv, found t, label"),
        ("txt,y\na,1\n", r"expected a column 't' in .* Did you mean txt\?"),
        ("t,y\n ,1\n", r"expected a text in column 't' of .* line 2, found nothing"),
        ("t,y\na,\n", r"expected a label in column 'y' of .* line 2, found nothing"),
        ("t,y\na,yes\nb,maybe\n", r"expected a label out of yes, no in .* line 3, found 'maybe'"),
        ("t,y\na,2\n", r"expected a label out of yes, no in .*, found '2'"),
        ("t,y\n", r"expected at least one row in .*test.csv, found none"),
    ],
)
def test_bad_rows_are_named_by_file_and_line(tmp_path: Path, content: str, message: str) -> None:
    csv_file(tmp_path, "test", content)
    with pytest.raises(InputError, match=message):
        load_examples("x", "test", tmp_path, Columns("t", None, "y"), ("yes", "no"))


@pytest.mark.parametrize("line", ["{", "[1]"])
def test_a_line_that_is_no_object_is_refused(tmp_path: Path, line: str) -> None:
    (tmp_path / "dev.json").write_text('{"t": "a", "y": "b"}\n' + line + "\n")
    with pytest.raises(InputError, match=r"expected one JSON object a line in .* line 2"):
        load_examples("x", "dev", tmp_path, Columns("t", None, "y"))


def test_one_label_alone_makes_no_task(tmp_path: Path) -> None:
    csv_file(tmp_path, "train", "t,y\na,1\nb,1\n")
    with pytest.raises(InputError, match="at least two different labels"):
        load_examples("x", "train", tmp_path, Columns("t", None, "y"))


def test_missing_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"expected dev.tsv of mnli in .*, found no such file"):
        load_examples("mnli", "dev", tmp_path)
    with pytest.raises(InputError, match=r"expected dev.csv or dev.jsonl in .*, found neither"):
        load_examples("x", "dev", tmp_path, Columns("t", None, "y"))
    with pytest.raises(InputError, match="expected --data-dir"):
        load_examples("x", "dev", None, Columns("t", None, "y"))


def test_a_short_line_of_a_tsv_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("sentence\tlabel\nonly text\n")
    with pytest.raises(InputError, match=r"expected 2 columns in .* line 2, found 1"):
        load_examples("sst2", "dev", tmp_path)


def test_an_unknown_task_answers_with_the_nearest_names(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"found 'sst'\. Did you mean sst2"):
        load_examples("sst", "dev", tmp_path)


def test_own_columns_need_text_and_label_together() -> None:
    assert own_columns(None, None, None) is None
    assert own_columns("t", "u", "y") == Columns("t", "u", "y")
    for text, pair, label in (("t", None, None), (None, None, "y"), (None, "u", None)):
        with pytest.raises(InputError, match="expected both --text and --label"):
            own_columns(text, pair, label)


def test_a_random_part_keeps_the_order_and_follows_the_seed() -> None:
    many = Examples([str(i) for i in range(100)], [f"p{i}" for i in range(100)], list(range(100)), ("a", "b"))
    part = many.sample(10, seed=1)
    assert part.labels == sorted(part.labels or [])
    assert [int(text) for text in part.texts] == part.labels
    assert part.pairs == [f"p{label}" for label in part.labels or []]
    assert part == many.sample(10, seed=1)
    assert part != many.sample(10, seed=2)
    assert many.sample(None, 0) is many.sample(1000, 0) is many
    bare = Examples(many.texts, None, None, ("a", "b")).sample(3, 0)
    assert bare.pairs is None
    assert bare.labels is None


def test_the_metric_is_glues_where_the_classes_are() -> None:
    assert task_card("mrpc", TASKS["mrpc"].classes).metric == "f1"
    assert task_card("mrpc", ("no", "yes")).metric == "accuracy"
    assert task_card("intents", ("a", "b")).name == "intents"


def test_columns_to_collect_from_need_a_text_but_no_label() -> None:
    assert collected_columns(None, None, None, None, None) is None
    assert collected_columns("t", None, None, "n", "s") == Columns("t", None, None, "n", "s")
    with pytest.raises(InputError, match="expected --text too, for the column 'n' of your own data"):
        collected_columns(None, None, None, "n", None)


def test_numbers_of_samples_are_whole_numbers(tmp_path: Path) -> None:
    columns = Columns("t", None, None, "n", None)
    (tmp_path / "rest.csv").write_text("n,t\n4,good\nx,bad\n", encoding="utf-8")
    with pytest.raises(InputError, match=r"a whole number in column 'n' of .*rest.csv line 3, found 'x'"):
        load_examples("mine", "rest", tmp_path, columns, ("no", "yes"))
    (tmp_path / "rest.csv").write_text("n,t\n4,good\n-2,bad\n", encoding="utf-8")
    examples = load_examples("mine", "rest", tmp_path, columns, ("no", "yes"))
    assert (examples.ids, examples.groups, examples.labels) == ([4, -2], None, None)
    assert examples.sample(1, seed=0).ids in ([4], [-2])
    with pytest.raises(InputError, match="expected the classes of unlabelled texts"):
        load_examples("mine", "rest", tmp_path, columns)
