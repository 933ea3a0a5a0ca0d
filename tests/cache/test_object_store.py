"""Caches on object stores: copied once, by the manifest's hash, believed only with the listed bytes, the oldest go."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from pyarrow.fs import S3FileSystem

from exitbench.cache import Cache, object_store, synthetic_cache
from exitbench.cache.object_store import fetched_cache, refuse_finished_copy, upload_folder
from exitbench.errors import InputError
from tests.support.command_line import QUICK, exit_code

URL = "memory://caches/m-a-dev"

IN_USE = """
import sys
from pathlib import Path
from exitbench.cache.object_store import note_use

note_use(Path(sys.argv[1]), sys.argv[2])
print("noted", flush=True)
sys.stdin.read()
"""


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return synthetic_cache(tmp_path_factory.mktemp("here") / "m-a-dev", rows=30, layers=3, width=4, shard_rows=16)


@pytest.fixture
def memory(cache: Path) -> Iterator[fsspec.AbstractFileSystem]:
    """The cache in fsspec's file system of this process."""
    store = fsspec.filesystem("memory")
    store.put(f"{cache}/", "/caches/m-a-dev/", recursive=True)
    yield store
    store.rm("/caches", recursive=True)


@pytest.fixture(autouse=True)
def copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(object_store.FOLDER, str(tmp_path / "copies"))
    return tmp_path / "copies"


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def test_a_copy_has_the_bytes_of_the_cache_and_is_made_once(cache, memory, copies):
    path = fetched_cache(URL)
    assert path.name == "m-a-dev"
    assert path.is_relative_to(copies)
    assert contents(path) == contents(cache)
    assert Cache(path).rows == 30
    for name in ("shard-00000.safetensors", "heads.safetensors"):
        memory.rm(f"/caches/m-a-dev/{name}")  # only the manifest is asked again
    assert fetched_cache(f"{URL}/") == path


def test_other_bytes_than_the_manifest_lists_are_refused_and_the_next_call_goes_on(cache, memory, copies):
    good = memory.cat_file("/caches/m-a-dev/shard-00001.safetensors")
    memory.pipe_file("/caches/m-a-dev/shard-00001.safetensors", good[:-1] + b"x")
    with pytest.raises(InputError, match=r"expected of shard-00001\.safetensors the bytes that the manifest lists"):
        fetched_cache(URL)
    assert not list(copies.glob("*/m-a-dev"))
    memory.pipe_file("/caches/m-a-dev/shard-00001.safetensors", good)
    memory.rm("/caches/m-a-dev/heads.safetensors")  # was copied before
    assert contents(fetched_cache(URL)) == contents(cache)


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("memory://caches/none", "expected a cache, found no manifest.json"),
        ("memory://", "expected the URL of a cache, found one without a folder's name"),
        ("memory://caches/..", "expected the URL of a cache, found one without a folder's name"),
        ("memory://caches/..\\..\\mine", "expected the URL of a cache, found one without a folder's name"),
        ("memory://caches/a\0b", "expected the URL of a cache, found one without a folder's name"),
        (f"memory://caches/{'a' * 300}", "expected the URL of a cache, found one without a folder's name"),
        ("s3://bucket/cache?nonsense=1", "found: .*nonsense"),
        ("nosuch://bucket/cache", "expected a URL that pyarrow or fsspec can open"),
    ],
)
def test_what_is_no_cache_is_a_line(memory, url, message):
    with pytest.raises(InputError, match=message):
        fetched_cache(url)


def test_a_manifest_that_leaves_its_folder_is_refused(cache, memory, copies):
    manifest = json.loads((cache / "manifest.json").read_bytes())
    manifest["shards"][0]["file"] = "../shard-00000.safetensors"
    memory.pipe_file("/caches/m-a-dev/manifest.json", json.dumps(manifest).encode())
    with pytest.raises(InputError, match=rf"{URL}: manifest\.json: expected .*, found '\.\./shard-00000\.safetensors'"):
        fetched_cache(URL)
    assert not copies.exists()


def end_uses(copies: Path) -> None:
    """What the system does when a process ends: its files are closed, and their locks given up."""
    os.close(object_store._users.pop(copies))


def test_the_copies_used_longest_ago_make_room(tmp_path, copies, monkeypatch):
    store, made = fsspec.filesystem("memory"), {}
    for number in range(3):
        made[number] = synthetic_cache(tmp_path / f"c{number}", rows=30, layers=3, width=4, seed=number)
        store.put(f"{made[number]}/", f"/lru/c{number}/", recursive=True)
    size = sum(file.stat().st_size for file in made[0].iterdir())
    monkeypatch.setattr(object_store, "parse_memory", lambda text: int(2.5 * size))
    first, second = fetched_cache("memory://lru/c0"), fetched_cache("memory://lru/c1")
    for number, path in enumerate((second, first)):  # the first was used last
        os.utime(path / "manifest.json", (number, number))
    end_uses(copies)
    third = fetched_cache("memory://lru/c2")
    assert [path.exists() for path in (first, second, third)] == [True, False, True]
    monkeypatch.setattr(object_store, "parse_memory", lambda text: size // 2)
    with pytest.raises(InputError, match=r"expected a cache of at most 0\.0 GB"):
        fetched_cache("memory://lru/c1")
    store.rm("/lru", recursive=True)


@pytest.mark.process
def test_a_copy_that_is_in_use_makes_no_room(cache, memory, tmp_path, copies, monkeypatch):
    other = synthetic_cache(tmp_path / "other", rows=30, layers=3, width=4, seed=7)
    memory.put(f"{other}/", "/caches/other/", recursive=True)
    size = sum(file.stat().st_size for file in cache.iterdir())
    monkeypatch.setattr(object_store, "parse_memory", lambda text: int(1.5 * size))
    path = fetched_cache(URL)
    refused = pytest.raises(InputError, match=r"expected room for .* in use, .*: set EXITBENCH_COPIES for more")
    with refused:
        fetched_cache("memory://caches/other")
    program = [sys.executable, "-c", IN_USE, copies, path.parent.name]
    user = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert user.stdout.readline() == b"noted\n"
    end_uses(copies)
    with refused:
        fetched_cache("memory://caches/other")
    assert contents(path) == contents(cache)
    user.communicate()
    assert contents(fetched_cache("memory://caches/other")) == contents(other)
    assert not path.exists()


def test_a_wrong_size_of_all_copies_is_named(memory, monkeypatch):
    monkeypatch.setenv("EXITBENCH_COPIES", "a lot")
    with pytest.raises(InputError, match=r"^EXITBENCH_COPIES: expected .* such as 2GB, at least 100MB, found 'a lot'"):
        fetched_cache(URL)


def test_a_folder_is_copied_to_a_store_with_its_record_last(tmp_path, monkeypatch):
    folder = tmp_path / "run"
    for name in ("run.json", "results.parquet", "tables/main.md", ".units/x/done.json", ".exitbench.lock"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('{"complete": true}' if name == "run.json" else name)
    store, order = fsspec.filesystem("memory"), []
    opened = type(store)._open

    def noted(own, path, *words, **options):
        order.append(path)
        return opened(own, path, *words, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(store), "_open", noted)
        upload_folder(folder, "memory://results/run")
    shown = ["results.parquet", "run.json", "tables/main.md"]
    assert sorted(store.find("/results")) == [f"/results/run/{name}" for name in shown]
    assert store.cat_file("/results/run/tables/main.md") == b"tables/main.md"
    assert order[-1].endswith("run.json")
    with pytest.raises(InputError, match="memory://results/run holds a finished run"):
        refuse_finished_copy("memory://results/run", force=False)
    refuse_finished_copy("memory://results/run", force=True)
    refuse_finished_copy("memory://results/other", force=False)
    store.rm("/results", recursive=True)


def test_a_store_that_keeps_other_bytes_than_it_was_sent_is_found_out(memory, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    folder.mkdir()
    for name in ("run.json", "results.parquet"):
        (folder / name).write_text("12345")

    def framed(source, stream, _):
        stream.write(b"5;\r\n" + source.read())

    monkeypatch.setattr(object_store.shutil, "copyfileobj", framed)
    with pytest.raises(InputError, match=r"memory://caches/out: expected 5 bytes of results\.parquet there, found 9"):
        upload_folder(folder, "memory://caches/out")
    assert not memory.exists("/caches/out/run.json")


@pytest.mark.long
def test_a_run_reads_from_a_store_and_its_results_go_to_one(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ("run", URL, *QUICK, "--no-report", "--out", "memory://results/mine")
    assert exit_code(*words) == 0
    here = {path.name: path.read_bytes() for path in Path("out/m-a-dev").glob("[!.]*")}
    there = {path.rpartition("/")[2]: memory.cat_file(path) for path in memory.find("/results/mine")}
    assert {"run.json", "results.parquet"} <= set(there)
    assert there == here
    assert "copied to memory://results/mine" in capsys.readouterr().out
    assert exit_code(*words) == 2
    assert "memory://results/mine holds a finished run" in capsys.readouterr().err
    assert exit_code(*words[:-2], "--part", "1/2", "--out", "memory://results/other") == 2
    memory.rm("/results", recursive=True)


@pytest.mark.long
def test_where_only_the_copy_failed_only_that_is_done_again(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    words = ("run", URL, *QUICK, "--no-report", "--out", "memory://results/mine")
    opened = type(memory)._open

    def refused(own, path, mode="rb", **options):
        if mode != "rb" and path.endswith("pairs.parquet"):
            raise PermissionError("403 Forbidden")
        return opened(own, path, mode, **options)

    with monkeypatch.context() as patch:
        patch.setattr(type(memory), "_open", refused)
        assert exit_code(*words) == 2
    said = capsys.readouterr().err
    assert "memory://results/mine: cannot be read or written: 403 Forbidden; the run is in out/m-a-dev, and" in said
    assert not memory.exists("/results/mine/run.json")
    made = (tmp_path / "out/m-a-dev/results.parquet").stat().st_mtime_ns
    assert exit_code(*words, "--seed", "5") == 2
    assert "out/m-a-dev holds another finished run" in capsys.readouterr().err
    assert exit_code(*words) == 0
    assert capsys.readouterr().out == "copied to memory://results/mine\n"
    assert (tmp_path / "out/m-a-dev/results.parquet").stat().st_mtime_ns == made
    assert memory.cat_file("/results/mine/run.json") == (tmp_path / "out/m-a-dev/run.json").read_bytes()
    assert not list((tmp_path / "out/m-a-dev").glob(".to-copy*"))
    memory.rm("/results", recursive=True)


def test_a_store_that_takes_nothing_is_found_out_before_the_run(memory, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    def refused(*_, **__):
        raise PermissionError("403 Forbidden")

    monkeypatch.setattr(type(memory), "mkdir", refused)
    assert exit_code("run", URL, *QUICK, "--out", "memory://results/mine") == 2
    assert "memory://results/mine: cannot be read or written: 403 Forbidden" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


SECRET = (
    "s3://key:top/secret@bucket/cache",
    "s3://bucket/cache?region=us-east-1&secret_key=secret",
    "abfs://container@account.blob.core.windows.net/cache?sas_token=secret",
    "https://host/bucket/cache?se=2030&sig=secret",
    "https://host/cache?X-Amz-Credential=secret",
)


@pytest.mark.parametrize("url", SECRET)
def test_credentials_in_a_url_are_neither_taken_nor_shown(url, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert exit_code("inspect", url) == 2
    assert exit_code("run", "smoke", "--signals", "deebert", "--out", url) == 2
    said = "".join(capsys.readouterr())
    assert said.count("expected a URL without a password in it") == 2
    assert "secret" not in said


def test_a_url_is_no_path_for_a_verb_that_writes_here(cache, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for words in (
        ("compact", cache, "s3://bucket/small"),
        ("derive", "temperature", "--train", cache, "--on", cache, "--out", "s3://bucket/derived"),
        ("score", cache, "--signal", "deebert", "--out", "s3://bucket/scores.npz"),
    ):
        assert exit_code(*words) == 2
        assert "expected a path of this machine, found the URL s3://bucket/" in capsys.readouterr().err
    assert not list(tmp_path.glob("s3*"))


@pytest.mark.long
def test_a_cache_on_s3_is_inspected_by_its_url(cache, monkeypatch, capsys):
    from moto.server import ThreadedMotoServer  # a second to import

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            monkeypatch.setenv(name, "test")
        monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        where = {"endpoint_override": f"{host}:{port}", "scheme": "http", "region": "us-east-1"}
        store = S3FileSystem(**where, allow_bucket_creation=True)
        store.create_dir("models")
        for file in cache.iterdir():
            with store.open_output_stream(f"models/caches/m-a-dev/{file.name}") as stream:
                stream.write(file.read_bytes())
        url = f"s3://models/caches/m-a-dev?endpoint_override={host}:{port}&scheme=http&region=us-east-1"
        assert contents(fetched_cache(url)) == contents(cache)
        assert exit_code("inspect", url) == 0
        assert "30" in capsys.readouterr().out
        assert exit_code("inspect", url.replace("m-a-dev", "none")) == 2
        assert "expected a cache, found no manifest.json" in capsys.readouterr().err
        upload_folder(cache, url.replace("m-a-dev", "copy"))
        with store.open_input_stream("models/caches/copy/heads.safetensors") as stream:
            assert stream.read() == (cache / "heads.safetensors").read_bytes()
    finally:
        server.stop()
