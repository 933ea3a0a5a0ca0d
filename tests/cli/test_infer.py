"""``exitbench infer`` from end to end: what it writes, and what it refuses in one line."""

import csv
import io
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from exitbench.cache import synthetic_cache
from tests.support.command_line import exit_code
from tests.support.interrupts import interrupt
from tests.support.tiny_models import collected_folder, save_backbone

ROWS = 40


pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model``, ``data/dev.tsv`` and ``cache``, made by the program itself."""
    return collected_folder(tmp_path_factory.mktemp("infer"), depth=6, rows=ROWS)


@pytest.fixture
def infer(folder: Path) -> list[object]:
    return ["infer", "--model", folder / "model", "--device", "cpu"]


def test_a_file_is_answered_row_by_row(infer: list[object], folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(*infer, "--signal", "cap[alpha=1]", "--threshold", "0.5", folder / "data" / "dev.tsv") == 0
    captured = capsys.readouterr()
    rows = list(csv.DictReader(io.StringIO(captured.out)))
    assert list(rows[0]) == ["id", "class", "exit_layer", "score"]
    assert [int(row["id"]) for row in rows] == list(range(ROWS))
    assert {row["class"] for row in rows} <= {"negative", "positive"}
    for row in rows:
        assert (row["score"] == "") == (row["exit_layer"] == "6")
        assert row["score"] == "" or float(row["score"]) < 0.5
    mean = sum(int(row["exit_layer"]) for row in rows) / ROWS
    assert f"{ROWS} texts; mean exit layer {mean:.2f} of 6, {6 / mean:.2f}x fewer layers" in captured.err


def test_a_wanted_speed_up_is_read_off_the_cache_and_kept_live(
    infer: list[object], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "answers.jsonl"
    words = "--signal", "cap", "--calibrate", folder / "cache", "--speed-up", 2, "--format", "jsonl", "--out", out
    assert exit_code(*infer, *words, folder / "data" / "dev.tsv") == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    promised = float(re.findall(r"threshold \S+: (\S+)x fewer layers on the 40 samples of cache", captured.err)[0])
    answers = [json.loads(line) for line in out.read_text().splitlines()]
    assert 6 * ROWS / sum(answer["exit_layer"] for answer in answers) == pytest.approx(promised, abs=0.051)
    assert promised == pytest.approx(2, rel=0.1)
    assert {answer["score"] is None for answer in answers if answer["exit_layer"] == 6} <= {True}
    assert [path.name for path in tmp_path.iterdir()] == ["answers.jsonl"]


def test_a_grid_is_chosen_from_as_threshold_chooses(
    infer: list[object], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from exitbench.benchmarks.replay.operating_points import matched
    from exitbench.benchmarks.replay.replay_signal import replay_signal
    from exitbench.cache import Cache
    from exitbench.signals import load_registry

    grid = load_registry().expand("pcee[patience=1|2|3]")
    points = [matched(replay_signal(Cache(folder / "cache"), signal), 2.0) for signal in grid]
    scores = [point.score("accuracy") if point.status == "ok" else -1.0 for point in points]
    best = 1 if scores[1] == max(scores) else scores.index(max(scores))  # patience=2 is the default
    words = ["--signal", "pcee[patience=1|2|3]", "--calibrate", folder / "cache", "--speed-up", 2]
    assert exit_code(*infer, *words, folder / "data" / "dev.tsv") == 0
    chosen = f"chosen: {grid[best].text}; threshold {points[best].threshold!r}: {points[best].speed_up:.2f}x"
    assert chosen in capsys.readouterr().err
    assert exit_code(*infer, *words[:2], "--threshold", 0.5, folder / "data" / "dev.tsv") == 2
    assert "expected one signal, found a grid of 3" in capsys.readouterr().err


def test_a_signal_that_learns_takes_what_it_learned_from_the_cache_or_from_a_file(
    infer: list[object], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from exitbench.benchmarks.scoring.score_cache import fitted
    from exitbench.cache import Cache
    from exitbench.signals import load_registry

    text, data = "right-tool[temperature=fitted]", folder / "data" / "dev.tsv"
    ready = fitted(load_registry().make(text), Cache(folder / "cache"))
    (tmp_path / "signal.json").write_text(json.dumps(ready.to_json()))
    (tmp_path / "both.json").write_text(json.dumps({"signal": ready.to_json(), "threshold": 0.7}))
    printed = []
    for words in (
        ["--signal", text, "--calibrate", folder / "cache", "--threshold", 0.7],
        ["--signal-file", tmp_path / "signal.json", "--threshold", 0.7],
        ["--signal-file", tmp_path / "both.json"],
    ):
        assert exit_code(*infer, *words, data) == 0
        printed.append(capsys.readouterr().out)
    assert printed[0] == printed[1] == printed[2]
    assert exit_code(*infer, "--signal", text, "--threshold", 0.7, data) == 2
    assert "learns from labelled samples" in capsys.readouterr().err


def test_every_kind_of_input_gives_the_same_answers(
    infer: list[object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    texts = ['a "good" film', "the plot, it was dull", "never boring"]
    (tmp_path / "a.txt").write_text("".join(f"{text}\n" for text in texts))
    (tmp_path / "b.tsv").write_text("".join(f"{text}\n" for text in ["n\tsentence", *(f"1\t{text}" for text in texts)]))
    (tmp_path / "c.jsonl").write_text("".join(json.dumps({"review": text}) + "\n\n" for text in texts))
    with (tmp_path / "d.csv").open("w", newline="") as stream:
        csv.writer(stream).writerows([["review"], *([text] for text in texts)])
    common = [*infer, "--signal", "deebert", "--threshold", 0.5]
    printed = []
    for words in (
        [tmp_path / "a.txt"],
        [tmp_path / "b.tsv"],
        ["--text", "review", tmp_path / "c.jsonl"],
        ["--text", "review", tmp_path / "d.csv"],
        ["-"],
    ):
        if words == ["-"]:
            data = io.TextIOWrapper(io.BytesIO("\n".join(texts).encode("utf-8-sig")))
            monkeypatch.setattr(sys, "stdin", data)
        assert exit_code(*common, *words) == 0
        printed.append(capsys.readouterr().out)
    assert len(set(printed)) == 1
    assert len(printed[0].splitlines()) == 4


def test_pairs_of_texts_are_read_from_two_columns(
    infer: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "pairs.csv").write_text("a,b\ngood film,bad film\ndull,it was long\n")
    words = [*infer, "--signal", "deebert", "--threshold", 0.0, "--text", "a"]
    assert exit_code(*words, "--text-pair", "b", tmp_path / "pairs.csv") == 0
    paired = capsys.readouterr().out
    assert exit_code(*words, tmp_path / "pairs.csv") == 0
    assert len(paired.splitlines()) == len(capsys.readouterr().out.splitlines()) == 3


def test_long_texts_are_cut_counted_and_said_once(
    infer: list[object], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a.txt").write_text("good film\n" + ("dull " * 200 + "\n") * 3)
    assert exit_code(*infer, "--signal", "deebert", "--threshold", 0.5, "--batch-size", 1, tmp_path / "a.txt") == 0
    errors = capsys.readouterr().err
    assert errors.count("cut") == 1
    assert "4 texts; 3 of them longer than 128 tokens and cut;" in errors


SIGNAL = ("--signal", "cap", "--threshold", "0.2")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([*SIGNAL, "nowhere.txt"], "expected a file of texts at nowhere.txt, found no such file"),
        ([*SIGNAL, "texts.parquet"], "or --input-format, found texts.parquet"),
        ([*SIGNAL, "blank.txt"], "expected a text on line 2 of blank.txt, found nothing"),
        ([*SIGNAL, "empty.txt"], "expected at least one text in empty.txt, found none"),
        ([*SIGNAL, "bytes.txt"], "expected UTF-8 text in bytes.txt"),
        ([*SIGNAL, "--text", "sentense", "good.tsv"], "expected a column 'sentense' in good.tsv, found sentence. Did"),
        ([*SIGNAL, "--text", "x", "blank.txt"], "plain text has none"),
        ([*SIGNAL, "short.tsv"], "expected 2 columns on line 2 of short.tsv, found 1"),
        ([*SIGNAL, "--text", "a", "bad.jsonl"], "expected a JSON object on line 2 of bad.jsonl"),
        ([*SIGNAL, "--text", "a", "list.jsonl"], "expected a JSON object on line 1 of list.jsonl, found [1]"),
        ([*SIGNAL, "--input-format", "xml", "good.tsv"], "expected --input-format auto, text, csv, tsv, jsonl, found"),
        ([*SIGNAL, "--format", "xml", "good.tsv"], "expected --format csv or jsonl, found 'xml'"),
        ([*SIGNAL, "--out", "good.tsv", "good.tsv"], "good.tsv exists already; --force overwrites it"),
        ([*SIGNAL, "--out", "no/where.csv", "good.tsv"], "the folder no does not exist"),
        ([*SIGNAL, "--speed-up", "2", "good.tsv"], "expected either --threshold, or --speed-up with --calibrate"),
        (["--signal", "cap", "good.tsv"], "with --calibrate, found neither"),
        (["--signal", "cap", "--speed-up", "2", "good.tsv"], "expected a cache of this model"),
        (["--threshold", "1", "good.tsv"], "expected either --signal or --signal-file, found neither"),
        (["--signal", "kap", "--threshold", "1", "good.tsv"], "unknown signal 'kap'. Did you mean cap"),
        (["--signal-file", "good.tsv", "--threshold", "1", "good.tsv"], "expected a signal as JSON in good.tsv"),
        (["--signal-file", "none.json", "--threshold", "1", "good.tsv"], "found no such file or directory"),
        (["--signal", "pabee", "--threshold", "0.5", "good.tsv"], "expected a whole threshold 1..4 for pabee"),
    ],
    ids=lambda value: "" if isinstance(value, list) else value[:40],
)
def test_wrong_input_is_one_line_and_leaves_nothing(
    words: list[str],
    message: str,
    infer: list[object],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, content in {
        "blank.txt": "good\n \nbad\n",
        "empty.txt": "",
        "texts.parquet": "x",
        "good.tsv": "sentence\ngood\n",
        "short.tsv": "sentence\tlabel\ngood\n",
        "bad.jsonl": '{"a": "good"}\n{"a":\n',
        "list.jsonl": "[1]\n",
    }.items():
        Path(name).write_text(content)
    Path("bytes.txt").write_bytes(b"good\n\xff\xfe\n")
    before = sorted(path.name for path in tmp_path.iterdir())
    out = [] if "--out" in words else ["--out", "answers.csv"]
    assert exit_code(*infer, *out, *words) == 2
    captured = capsys.readouterr()
    assert message in captured.err
    assert captured.err.startswith("error: ") and captured.err.count("\n") == 1
    assert captured.out == ""
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_cache_of_another_model_is_refused(
    infer: list[object], tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = synthetic_cache(tmp_path / "other", rows=60, layers=6, width=16)
    words = [*infer, "--signal", "cap", "--speed-up", 2, "--calibrate", other, folder / "data" / "dev.tsv"]
    assert exit_code(*words) == 2
    assert "expected a cache of this model" in capsys.readouterr().err


def test_a_model_without_exits_is_refused(tmp_path: Path, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    encoder = save_backbone(tmp_path / "encoder")
    capsys.readouterr()
    assert exit_code("infer", "--model", encoder, *SIGNAL, folder / "data" / "dev.tsv") == 2
    assert "expected a model with exits" in capsys.readouterr().err


@pytest.mark.process
def test_ctrl_c_leaves_no_file(infer: list[object], tmp_path: Path) -> None:
    out = tmp_path / "answers.csv"
    words = [*infer, *SIGNAL, "--batch-size", 1, "--out", out, "-"]
    program = [sys.executable, "-m", "exitbench", *map(str, words)]
    # The pipe stays open, so the program waits for more texts and cannot finish by itself.
    running = subprocess.Popen(program, stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdin is not None and running.stderr is not None
    running.stdin.write("good film\n")
    running.stdin.flush()
    deadline = time.monotonic() + 120
    while not list(tmp_path.iterdir()) and time.monotonic() < deadline:
        assert running.poll() is None, running.stderr.read()
        time.sleep(0.05)
    assert not out.exists(), "an unfinished file must not have the final name"
    assert interrupt(running) == (130, f"stopped; {out} was not written\n")
    running.stdin.close()
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_one_line(
    infer: list[object],
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    from exitbench import atomic_files

    def refuse(descriptor: int, block: memoryview) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(atomic_files.disk, "write", refuse)
    assert exit_code(*infer, *SIGNAL, "--out", tmp_path / "a.csv", folder / "data" / "dev.tsv") == 2
    assert "a.csv: cannot be written: no space left on the disk" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
