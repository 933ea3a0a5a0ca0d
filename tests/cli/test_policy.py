"""A policy from ``exitbench threshold`` to a running model and to its log: what is kept, and what is refused."""

import io
import json
import math
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from exitbench.benchmarks.replay.exit_rule import per_layer_exits
from exitbench.benchmarks.scoring.configuration import configuration_of, signal_scores
from exitbench.benchmarks.scoring.score_cache import score
from exitbench.cache import Cache
from exitbench.errors import InputError
from exitbench.models import EarlyExitClassifier, MultiExitModel
from exitbench.signals import load_registry
from exitbench.signals.registry.exit_policy import fits, read_policy, write_policy
from tests.support.command_line import exit_code
from tests.support.tiny_models import collected_folder, tiny_model

ROWS, DEPTH = 120, 4
TEMPERED = {"name": "right-tool", "parameters": {"temperature": "fitted"}}
MODEL = {"name": "m", "layers": 4, "classes": [], "heads": "", "revision": "", "pooling": "", "pooler": ""}


pytestmark = [pytest.mark.long, pytest.mark.usefixtures("one_thread")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``model``, ``data/dev.tsv``, ``cache`` and two policies: one certified, one with per-layer thresholds."""
    folder = collected_folder(tmp_path_factory.mktemp("policy"), depth=DEPTH, rows=ROWS)
    ask = ["threshold", folder / "cache", "--signal", "right-tool[temperature=fitted]"]
    promised = ["--guarantee", "--risk", "harm", "--limit", "0.4"]
    assert exit_code(*ask, *promised, "--out", folder / "policy.json") == 0
    estimate = ["--speed-up", 1.5, "--resamples", 2, "--thresholds", "quota"]
    assert (
        exit_code("threshold", folder / "cache", "--signal", "deebert", *estimate, "--out", folder / "quota.json") == 0
    )
    return folder


def texts(folder: Path) -> list[str]:
    return [line.split("\t")[0].strip() for line in (folder / "data" / "dev.tsv").read_text().splitlines()[1:]]


@pytest.mark.parametrize("name", ["policy.json", "quota.json"])
def test_a_model_with_a_policy_exits_as_the_replay_of_its_cache_does(folder: Path, name: str) -> None:
    policy, cache = read_policy(folder / name, load_registry()), Cache(folder / "cache")
    scores = signal_scores(configuration_of(policy.signal, DEPTH), score(cache, policy.signal))
    levels = np.broadcast_to(np.array(policy.layer_thresholds()), (DEPTH - 1,))
    exits = per_layer_exits(scores, levels)
    assert len(set(exits.tolist())) > 1
    answers = EarlyExitClassifier.from_policy(folder / name, folder / "model", device="cpu").predict(texts(folder))
    assert np.mean([answer.exit_layer == layer for answer, layer in zip(answers, exits, strict=True)]) > 0.97
    for answer in answers:
        expected = cache.logits(answer.exit_layer)[answer.id].double().softmax(0)
        assert answer.probabilities == pytest.approx(expected.tolist(), abs=1e-5)
        assert answer.class_index == int(np.argmax(answer.probabilities))


def test_a_policy_holds_what_it_rests_on(folder: Path) -> None:
    record = json.loads((folder / "policy.json").read_text())
    assert record["guarantee"]["risk"] == "harm"
    assert record["guarantee"]["rows_certify"] == len(record["calibration"]["exit_layers"])
    assert record["signal"]["learned"]["temperatures"]
    policy = read_policy(folder / "policy.json", load_registry())
    assert policy.to_json() == record
    means = record["expected"]["speed_up"]["value"], DEPTH / np.mean(record["calibration"]["exit_layers"])
    assert means[0] == pytest.approx(means[1])
    quota = json.loads((folder / "quota.json").read_text())
    assert (quota["guarantee"], quota["note"]) == (None, "an estimate, not a promise")
    assert len(quota["threshold"]) == DEPTH - 1


def test_infer_answers_with_a_policy_and_watch_drift_reads_its_log(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log, policy = tmp_path / "log.jsonl", folder / "policy.json"
    infer = ["infer", "--model", folder / "model", "--device", "cpu", "--policy", policy]
    assert exit_code(*infer, "--format", "jsonl", "--out", log, folder / "data" / "dev.tsv") == 0
    records = [json.loads(line) for line in log.read_text().splitlines()]
    assert all(sum(record["probabilities"]) == pytest.approx(1) for record in records)
    capsys.readouterr()
    assert exit_code("watch-drift", policy, log) == 0
    assert capsys.readouterr().out.startswith("no drift: largest evidence ")
    late = tmp_path / "late.csv"
    late.write_text("id,class,exit_layer,score\n" + "".join(f"{row},x,{DEPTH},\n" for row in range(300)))
    assert exit_code("watch-drift", policy, late, "--json") == 1
    report = json.loads(capsys.readouterr().out)
    assert report["drift"]
    assert report["alarm_row"] < report["rows"] == 300
    assert report["mean_exit_layer"] == DEPTH
    assert exit_code("watch-drift", policy, late) == 1
    assert capsys.readouterr().out.startswith(f"drift since row {report['alarm_row']} at the latest")


def test_a_policy_for_another_network_is_refused(folder: Path, tmp_path: Path) -> None:
    other = MultiExitModel.from_pretrained(folder / "model")
    with torch.no_grad():
        other.head(2).bias[0] += 1e-3
    with pytest.raises(InputError, match="expected a policy for this model, found one for other heads"):
        EarlyExitClassifier.from_policy(folder / "policy.json", other, device="cpu")
    other = MultiExitModel.from_pretrained(folder / "model")
    with torch.no_grad():
        other.backbone.encoder.layer[-1].output.dense.weight[0, 0] += 1e-3
    with pytest.raises(InputError, match=r"found [0-9a-f]{16}: the heads are equal, the encoder is not$"):
        EarlyExitClassifier.from_policy(folder / "policy.json", other, device="cpu")
    tiny_model(tmp_path / "deeper", depth=DEPTH + 1)
    with pytest.raises(InputError, match=f"with layers {DEPTH + 1}, found {DEPTH}"):
        EarlyExitClassifier.from_policy(folder / "policy.json", tmp_path / "deeper", device="cpu")
    for name, value, message in (
        ("heads", "", "found one of a cache without heads to tell by"),
        ("revision", "main", "found one of a cache that does not say by which weights it was collected"),
        ("pooling", "first", "with pooling mean, found first"),
    ):
        record = json.loads((folder / "policy.json").read_text())
        record["model"][name] = value
        (tmp_path / "policy.json").write_text(json.dumps(record))
        with pytest.raises(InputError, match=message):
            EarlyExitClassifier.from_policy(tmp_path / "policy.json", folder / "model", device="cpu")


@pytest.mark.parametrize("values", [[1.0], [0.0, 0.0, 0.0]])
def test_learned_values_that_cannot_run_in_the_network_are_one_line(
    folder: Path, tmp_path: Path, values: list[float]
) -> None:
    record = json.loads((folder / "policy.json").read_text())
    record["signal"]["learned"]["temperatures"] = values
    (tmp_path / "policy.json").write_text(json.dumps(record))
    with pytest.raises(InputError, match=r"right-tool|expected a signal that runs in this network") as refused:
        EarlyExitClassifier.from_policy(tmp_path / "policy.json", folder / "model", device="cpu")
    assert "\n" not in str(refused.value)


def test_do_not_exit_is_a_policy_too(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "never.json"
    words = ["threshold", folder / "cache", "--signal", "deebert", "--guarantee", "--limit", "0.0001", "--out", out]
    assert exit_code(*words) == 0
    assert exit_code(*words) == 2  # it exists already
    assert exit_code(*words, "--force") == 0
    answers = EarlyExitClassifier.from_policy(out, folder / "model", device="cpu").predict(texts(folder)[:5])
    assert {answer.exit_layer for answer in answers} == {DEPTH}


def test_thresholds_of_another_depth_are_refused(folder: Path) -> None:
    model = MultiExitModel.from_pretrained(folder / "model")
    with pytest.raises(InputError, match="expected 3 thresholds, one for every internal layer, found 2"):
        EarlyExitClassifier(model, load_registry().make("deebert"), [0.1, 0.2])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 1}, "expected a policy of schema 2, found 1, which does not say which encoder it is for"),
        ({"schema": 3}, "expected a policy of schema 2, found 3"),
        ({"signal": 3}, "expected an object as signal, found 3"),
        ({"signal": {"name": "nobody"}}, "unknown signal 'nobody'"),
        ({"threshold": [1.0]}, "expected a number, a list of 3 or null as threshold"),
        ({"threshold": "x"}, "found 'x'"),
        ({"model": {}}, "expected int as layers of the model, found None"),
        ({"model": MODEL | {"layers": 1}}, "expected 2..10000 layers, found 1"),
        ({"model": MODEL | {"layers": 10**400}}, "expected 2..10000 layers, found 1000"),
        ({"model": MODEL | {"classes": [3]}}, "expected names of classes, found [3]"),
        ({"threshold": 10**400}, "expected a number, a list of 3 or null as threshold, found 1000"),
        ({"calibration": {"exit_layers": [1], "scores": [10**400]}}, "and a score for each as calibration"),
        ({"signal": {"name": "cap", "parameters": {"alpha": 10**400}}}, "alpha must be a number, at least 0"),
        ({"signal": TEMPERED | {"learned": {"temperatures": [10**400]}}}, "expected tuple[float, ...] as temperatures"),
        (
            {"signal": TEMPERED | {"learned": {"temperatures": [math.nan]}}},
            "expected tuple[float, ...] as temperatures",
        ),
        ({"signal": TEMPERED | {"learned": {"__class__": 1}}}, "unknown '__class__'"),
        ({"model": MODEL | {"revision": None}}, "expected str as revision of the model, found None"),
        ({"guarantee": 1}, "expected an object or null as guarantee, found 1"),
        ({"calibration": {"exit_layers": [9], "scores": [None]}}, "expected exit layers 1..4 and a score for each"),
        ({"calibration": {"exit_layers": [1], "scores": []}}, "expected exit layers 1..4 and a score for each"),
        ({"expected": None}, "expected an object as expected, found None"),
    ],
)
def test_a_policy_from_a_stranger_is_checked(
    folder: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    record = json.loads((folder / "policy.json").read_text()) | change
    (tmp_path / "policy.json").write_text(json.dumps(record))
    with pytest.raises(InputError) as refused:
        read_policy(tmp_path / "policy.json", load_registry())
    assert message in str(refused.value)


def test_a_policy_with_what_json_cannot_hold_is_not_written(folder: Path, tmp_path: Path) -> None:
    policy = read_policy(folder / "policy.json", load_registry())
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_policy(tmp_path / "policy.json", replace(policy, expected={"speed_up": math.nan}))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ((1.0, 2), tuple[float, ...], True),
        ((1.0, "a"), tuple[float, ...], False),
        ((1.0, "a"), tuple[float, str], True),
        ([1.0], tuple[float, ...], False),
        (None, tuple[float, ...] | None, True),
        (True, float, False),
        (1.5, int, False),
    ],
)
def test_learned_values_are_held_against_their_declaration(value: Any, hint: Any, expected: bool) -> None:
    assert fits(value, hint) == expected


def test_a_device_is_no_policy() -> None:
    with pytest.raises(InputError, match=r"expected a policy of at most 256 MB in /dev/null, found no such file"):
        read_policy(Path("/dev/null"), load_registry())  # a read of /dev/zero would never end


@pytest.mark.parametrize("content", ["[]", "{", "\udcff", None])
def test_what_is_no_policy_is_one_line(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "policy.json").write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(InputError, match=r"expected a (policy as JSON|JSON object) in .*policy.json, found"):
        read_policy(tmp_path / "policy.json", load_registry())


@pytest.mark.parametrize(
    ("log", "message"),
    [
        ("", "expected the columns exit_layer and score in log, found nothing"),
        ("exit_layer,score\n", "expected at least one answer in log, found none"),
        ("exit_layer,score\nx,1\n", "expected a layer and a score on line 2 of log, found 'x' and '1'"),
        ("exit_layer,score\n9,1\n", "expected an exit layer 1..4 with a score, the last without, on line 2"),
        ("exit_layer,score\n4,1\n", "the last without, on line 2"),
        ("exit_layer,score\n1,\n", "the last without, on line 2"),
        ("exit_layer,score\n1,inf\n", "the last without, on line 2"),
        ("exit_layer,score," + "x" * 140_000, "expected CSV in log, found: field larger than field limit"),
        ("exit_layer,score\n1," + "x" * 140_000, "expected CSV in log, found: field larger than field limit"),
        ("exit_layer,score\n" + "x" * 100_000 + ",1\n", "expected a layer and a score on line 2 of log, found 'xx"),
        ('{"exit_layer": 1, "score": 0.1}\n\n[1]\n', "expected a JSON object on line 3 of log, found list"),
        ('{"exit_layer": 1, "score": 0.1}\n{\n', "expected a JSON object on line 2 of log"),
        (None, "expected a log of answers at log, found no such file"),
    ],
)
def test_a_log_that_is_none_is_one_line(
    folder: Path,
    tmp_path: Path,
    log: str | None,
    message: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    if log is not None:
        Path("log").write_text(log)
    assert exit_code("watch-drift", folder / "policy.json", "log") == 2
    line = capsys.readouterr().err
    assert message in line
    assert len(line) < 5000


@pytest.mark.parametrize("log", ["log", "-"])
def test_a_log_without_an_end_is_refused(
    log: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("exitbench.cli.answer_log.LARGEST", 20)
    text = "exit_layer,score\n1,0.5\n"
    (tmp_path / "log").write_text(text)
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    monkeypatch.chdir(tmp_path)
    assert exit_code("watch-drift", folder / "policy.json", log) == 2
    assert "expected at most 20 characters in" in capsys.readouterr().err


def test_a_policy_takes_no_other_signal(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    infer = ["infer", "--model", folder / "model", "--policy", folder / "policy.json", "--signal", "cap"]
    assert exit_code(*infer, folder / "data" / "dev.tsv") == 2
    assert "--policy names signal and thresholds; it takes no other option" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("kind", "text"), [("text", "good\n\n  \nbad film\n"), ("tsv", "sentence\tlabel\ngood\t1\n\n\t\nbad film\t0\n")]
)
def test_blank_lines_of_a_pipe_are_skipped_and_counted(
    folder: Path, kind: str, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    infer = ["infer", "--model", folder / "model", "--device", "cpu", "--policy", folder / "policy.json"]
    assert exit_code(*infer, "--input-format", kind, "-") == 0
    captured = capsys.readouterr()
    assert captured.out.count("\n") == 3
    assert "2 texts; 2 blank lines skipped; mean exit layer" in captured.err
