"""Damaged and foreign files: whatever a verb is given, it answers in one line and ends with 2, never with a defect."""

import json
import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest

from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from tests.support.checked_suite import SUITE
from tests.support.command_line import QUICK, exit_code

pytestmark = pytest.mark.long

Damage = Callable[[Path], None]

DEEP = 100_000
"""Brackets inside brackets, far beyond what a parser that calls itself can follow."""


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with everything a verb reads: a cache, a run, a suite with its baseline, arrays and a signal file."""
    folder = tmp_path_factory.mktemp("whole")
    synthetic_cache(folder / "caches/little", rows=60, layers=5, width=6)
    suite = suite_of_caches([folder / "caches/little"]).asking(protocols=("in-sample",), resamples=2)
    run_suite(suite.with_signals(("deebert",)), folder / "run")
    shutil.copytree(folder / "run", folder / "run-b")
    (folder / "small.toml").write_text(SUITE)
    (folder / "small.csv").write_text("hello\n")
    np.savez(folder / "arrays.npz", **arrays())  # type: ignore[arg-type]
    (folder / "signal.json").write_text(json.dumps({"name": "deebert", "parameters": {}}))
    (folder / "texts.txt").write_text("good\n")
    (folder / "model").mkdir()
    return folder


def arrays(**changes: Any) -> dict[str, Any]:
    """Arrays of a small cache, some of them replaced."""
    random = np.random.default_rng(0)
    logits = random.normal(size=(3, 4, 2)).astype(np.float32)
    features = random.normal(size=(3, 4, 5)).astype(np.float32)
    heads = {"weight": random.normal(size=(3, 2, 5)), "bias": np.zeros((3, 2))}
    return {"labels": np.array([0, 1, 1, 0]), "logits": logits, "features": features, **heads} | changes


def content(file: str, text: str | bytes) -> Damage:
    """Put something else into a file."""
    return lambda folder: (folder / file).write_bytes(text if isinstance(text, bytes) else text.encode()) and None


def cut(file: str, part: float = 0.5) -> Damage:
    """Keep the beginning of a file."""

    def damage(folder: Path) -> None:
        data = (folder / file).read_bytes()
        (folder / file).write_bytes(data[: int(len(data) * part)])

    return damage


def changed(file: str, *keys: str | int, value: Any) -> Damage:
    """Change one value of a JSON file."""

    def damage(folder: Path) -> None:
        record = target = json.loads((folder / file).read_text())
        for key in keys[:-1]:
            target = target[key]
        target[keys[-1]] = value
        (folder / file).write_text(json.dumps(record))

    return damage


def without(file: str, *keys: str) -> Damage:
    """Take one value out of a JSON file."""

    def damage(folder: Path) -> None:
        record = target = json.loads((folder / file).read_text())
        for key in keys[:-1]:
            target = target[key]
        del target[keys[-1]]
        (folder / file).write_text(json.dumps(record))

    return damage


def saved(**changes: Any) -> Damage:
    """Arrays that do not fit together."""
    return lambda folder: np.savez(folder / "arrays.npz", **arrays(**changes))


def zipped(name: str, data: bytes) -> Damage:
    """An archive with one more member."""

    def damage(folder: Path) -> None:
        with zipfile.ZipFile(folder / "arrays.npz", "a") as archive:
            archive.writestr(name, data)

    return damage


def flagged(folder: Path) -> None:
    """An archive whose members say that they are encrypted."""
    data = bytearray((folder / "arrays.npz").read_bytes())
    for sign, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(sign)
        while at >= 0:
            data[at + offset] |= 1
            at = data.find(sign, at + 4)
    (folder / "arrays.npz").write_bytes(data)


def flipped(folder: Path) -> None:
    """A compressed archive with other bytes in the middle."""
    np.savez_compressed(folder / "arrays.npz", **arrays())
    data = bytearray((folder / "arrays.npz").read_bytes())
    data[80:140] = bytes(60)
    (folder / "arrays.npz").write_bytes(data)


def parquet(name: str, **columns: Any) -> Damage:
    """A parquet file with other columns."""
    return lambda folder: pq.write_table(pa.table(columns), folder / "run" / f"{name}.parquet")


def retyped(name: str, column: str, value: Any) -> Damage:
    """A parquet file with other values in one column."""

    def damage(folder: Path) -> None:
        table = pq.read_table(folder / "run" / f"{name}.parquet")
        position = table.schema.names.index(column)
        table = table.set_column(position, column, pa.array([value] * table.num_rows))
        pq.write_table(table, folder / "run" / f"{name}.parquet")

    return damage


def array_header(text: str) -> bytes:
    """An array file with this header and no data."""
    header = text.encode() + b"\n"
    return b"\x93NUMPY\x02\x00" + len(header).to_bytes(4, "little") + header


NESTED = "[" * DEEP + "]" * DEEP
IMPORT = ["import", "arrays.npz", "--task", "t", "--split", "s", "--out", "made"]
MANIFEST, RECORD = "caches/little/manifest.json", "run/run.json"

ARRAYS: dict[str, Damage] = {
    "empty": content("arrays.npz", b""),
    "text": content("arrays.npz", "labels"),
    "cut": cut("arrays.npz"),
    "cut-at-the-end": cut("arrays.npz", 0.98),
    "flipped": flipped,
    "encrypted": flagged,
    "no-array": zipped("ids.npy", b"not an array"),
    "bytes": zipped("ids", b"not an array"),
    "huge": zipped("ids.npy", array_header("{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,)}")),
    "negative": zipped("ids.npy", array_header("{'descr': '<f8', 'fortran_order': False, 'shape': (-4,)}")),
    "nested-header": zipped("ids.npy", array_header("(" * 5000)),
    "objects": saved(labels=np.array([None, 1, 2, 3], dtype=object)),
    "strings": saved(labels=np.array(["a", "b", "c", "d"])),
    "records": saved(labels=np.zeros(4, dtype=[("a", "i4")])),
    "complex": saved(logits=np.zeros((3, 4, 2), dtype=np.complex64)),
    "single": saved(labels=np.int64(1)),
    "dates": saved(labels=np.zeros(4, dtype="M8[s]")),
    "few-labels": saved(labels=np.array([0, 1])),
    "other-width": saved(weight=np.zeros((3, 2, 6))),
    "other-layers": saved(bias=np.zeros((2, 2))),
    "flat-features": saved(features=np.zeros((3, 4))),
    "flat-weight": saved(weight=np.zeros(3)),
    "label-beyond": saved(labels=np.array([0, 1, 2, 9])),
    "half-labels": saved(labels=np.array([0, 0.5, 1, 0])),
    "not-finite": saved(logits=np.full((3, 4, 2), np.nan)),
}
JSON_TEXTS = {"empty": "", "cut": '{"a": [1,', "list": "[]", "null": "null", "nested": NESTED, "bytes": b"\xff\xfe\x00"}
CACHE_VERBS = {
    "inspect": ["inspect", "caches/little"],
    "run": ["run", "caches/little", *QUICK, "--out", "made"],
    "score": ["score", "caches/little", "--signal", "cap", "--out", "made.npz"],
    "threshold": ["threshold", "caches/little", "--signal", "cap", "--speed-up", "2"],
    "compact": ["compact", "caches/little", "made"],
}
MANIFESTS: dict[str, Damage] = {
    **{name: content(MANIFEST, text) for name, text in JSON_TEXTS.items()},
    "rows": changed(MANIFEST, "rows", value=61),
    "nul-in-shard": changed(MANIFEST, "shards", 0, "file", value="a\0b"),
}
SHARD = "caches/little/shard-00000.safetensors"
SHARDS: dict[str, Damage] = {
    "layers": changed(MANIFEST, "model", "layers", value=4),
    "cut": cut(SHARD),
    "nested": content(SHARD, (2 * DEEP).to_bytes(8, "little") + NESTED.encode()),
}
RUN_VERBS = {
    "report": ["report", "run"],
    "compare": ["compare", "run", "run-b"],
    "site": ["site", "run", "run-b", "--out", "pages"],
}
RUNS: dict[str, Damage] = {
    **{name: content(RECORD, text) for name, text in JSON_TEXTS.items()},
    "object": content(RECORD, "{}"),
    "schema": changed(RECORD, "schema", value=[1]),
    "no-suite": without(RECORD, "suite"),
    "suite-number": changed(RECORD, "suite", value=3),
    "no-protocols": without(RECORD, "suite", "protocols"),
    "protocols-number": changed(RECORD, "suite", "protocols", value=7),
    "no-caches": without(RECORD, "caches"),
    "caches-list": changed(RECORD, "caches", value=[]),
    "no-cache-of-suite": changed(RECORD, "suite", "caches", value=[]),
    "unlisted-cache": changed(RECORD, "suite", "caches", value=["elsewhere"]),
    "cache-text": changed(RECORD, "caches", "little", value="x"),
    "no-entries": without(RECORD, "entries"),
    "entry-text": changed(RECORD, "entries", value=["deebert"]),
    "entries-object": changed(RECORD, "entries", value={"a": 1}),
    "speed-up-text": changed(RECORD, "suite", "primary_speed_up", value="fast"),
    "no-results": lambda folder: (folder / "run/results.parquet").unlink(),
    "parquet-empty": content("run/results.parquet", b""),
    "parquet-text": content("run/results.parquet", "PAR1 not really PAR1"),
    "parquet-cut": cut("run/results.parquet"),
    "parquet-foreign": parquet("results", a=[1, 2]),
    "parquet-types": retyped("results", "value", "text"),
    "parquet-layer": retyped("results", "layer", "first"),
    "parquet-point": retyped("results", "operating_point", "nowhere=at all"),
}
VIEWS: dict[str, Damage] = {
    "curves-cut": cut("run/curves.parquet"),
    "pairs-types": retyped("pairs", "p_value", "text"),
    "histograms-foreign": parquet("histograms", a=[1, 2]),
}
SUITES = {
    "nested": "a = " + NESTED,
    "nested-tables": "[" + ".".join("a" * 5000) + "]\n",
    "nested-inline": "a = " + "{a = " * 2000 + "1" + "}" * 2000,
    "cut": SUITE[:40],
    "bytes": b"\xff\xfe\x00",
    "nul-in-cache": SUITE.replace("caches/little", "caches/a\\u0000b"),
    "nul-in-signal": SUITE.replace("deebert", "dee\\u0000bert"),
    "long": SUITE + "#" * 10**6,
    "nested-signal": SUITE.replace("deebert", "calibrated[of=" * 2000 + "deebert" + "]" * 2000),
    "grid": SUITE.replace("deebert", f"cap[alpha={'|'.join(map(str, range(1, 1002)))}]"),
    "speed-ups": SUITE.replace("speed_ups = [", f"speed_ups = [{', '.join(map(str, range(3, 104)))}, "),
    "losses": SUITE.replace("losses = [", f"losses = [{', '.join(f'{number / 4}' for number in range(5, 106))}, "),
    "nul-in-name": SUITE.replace('name = "small"', 'name = "a\\u0000b"'),
}
SUITE_VERBS = {"run": ["run", "small.toml", "--jobs", "1"], "check": ["check", "small.toml", "--jobs", "1"]}
SIGNALS = {
    **JSON_TEXTS,
    "nested-parameters": '{"name": "deebert", "parameters": ' + NESTED + "}",
    "number": '{"name": 3}',
    "parameters": '{"name": "deebert", "parameters": [1]}',
    "learned": '{"name": "deebert", "parameters": {}, "learned": 4}',
}
DERIVE = ["derive", "temperature", "--train", "caches/little", "--on", "caches/little", "--out", "made"]
CASCADE = ["cascade", "caches/little", "caches/little", "--costs", "1,4", "--out", "made"]
INFER = ["infer", "texts.txt", "--model", "model", "--threshold", "1", "--signal-file", "signal.json"]

CASES: list[tuple[str, list[str], Damage]] = [
    *((f"import-{name}", IMPORT, damage) for name, damage in ARRAYS.items()),
    *((f"{v}-{name}", words, damage) for v, words in CACHE_VERBS.items() for name, damage in MANIFESTS.items()),
    *((f"{v}-{name}", words, damage) for v, words in RUN_VERBS.items() for name, damage in RUNS.items()),
    *(
        (f"{v}-shard-{name}", CACHE_VERBS[v], damage)
        for v in ("inspect", "score", "compact")
        for name, damage in SHARDS.items()
    ),
    ("score-width", CACHE_VERBS["score"], changed(MANIFEST, "model", "width", value=7)),
    *((f"report-{name}", RUN_VERBS["report"], damage) for name, damage in VIEWS.items()),
    ("compare-no-samples", RUN_VERBS["compare"], lambda folder: (folder / "run/samples.parquet").unlink()),
    ("compare-samples-foreign", RUN_VERBS["compare"], parquet("samples", a=[1, 2])),
    *(
        (f"run-into-{name}", [*CACHE_VERBS["run"][:-1], "run"], content(RECORD, text))
        for name, text in JSON_TEXTS.items()
    ),
    *(
        (f"{v}-{name}", words, content("small.toml", text))
        for v, words in SUITE_VERBS.items()
        for name, text in SUITES.items()
    ),
    *((f"baseline-{name}", SUITE_VERBS["check"], content("small.csv", text)) for name, text in JSON_TEXTS.items()),
    *((f"cost-{name}", RUN_VERBS["report"], content("run/cost.json", text)) for name, text in JSON_TEXTS.items()),
    ("out-not-utf-8", [*CACHE_VERBS["run"][:-1], "o\udcff"], lambda _: None),
    ("jobs", [*SUITE_VERBS["run"][:-1], "1000000"], lambda _: None),
    ("import-device", [word.replace("arrays.npz", "/dev/zero") for word in IMPORT], lambda _: None),
    *((f"derive-shard-{name}", DERIVE, damage) for name, damage in SHARDS.items()),
    ("derive-manifest", DERIVE, cut(MANIFEST)),
    ("derive-many-rows", DERIVE, changed(MANIFEST, "rows", value=10**18)),
    ("cascade-shard", CASCADE, cut(SHARD)),
    ("cascade-costs", [*CASCADE[:4], "1e308,1e308", "--out", "made"], lambda _: None),
    ("table-record", ["table", "run", "main"], cut(RECORD)),
    ("table-results", ["table", "run", "--all"], parquet("results", a=[1, 2])),
    ("figure-curves", ["figure", "run", "trade-off"], VIEWS["curves-cut"]),
    ("figure-types", ["figure", "run", "--all", "--jobs", "1"], retyped("curves", "cost", "text")),
    *((f"infer-{name}", INFER, content("signal.json", text)) for name, text in SIGNALS.items()),
]


@pytest.mark.parametrize(("words", "damage"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_wrong_input_is_one_line_and_exit_code_2(
    words: list[str],
    damage: Damage,
    whole: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    damage(folder)
    monkeypatch.chdir(folder)
    code = exit_code(*words)
    captured = capsys.readouterr()
    assert (code, captured.err.count("\n")) == (2, 1), captured.err
    assert captured.err.startswith("error: ")


@pytest.mark.parametrize("damage", SHARDS.values(), ids=SHARDS)
def test_a_damaged_shard_fails_its_part_of_a_run(
    damage: Damage, whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = shutil.copytree(whole, tmp_path / "copy")
    damage(folder)
    assert exit_code("run", folder / "caches/little", *QUICK, "--out", folder / "made") == 1
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[0] for line in lines] == ["failed"]
