"""Folders that exitbench writes to: a user's files stay, nothing outside is reached, one process at a time."""

import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from exitbench.errors import InputError
from exitbench.output_folder import INVENTORY, LOCK, claimed, read_inventory


def list_files(path: Path, *names: object) -> None:
    path.mkdir(exist_ok=True)
    (path / INVENTORY).write_text(json.dumps({"files": {"run": names}}))


def test_files_are_listed_before_they_are_written_and_removed_when_their_maker_begins_again(tmp_path):
    out = tmp_path / "a" / "out"
    with claimed(out) as folder:
        folder.begin("run", ["one", "deep/two"])
        assert read_inventory(out) == {"run": ["one", "deep/two"]}
        (out / "deep").mkdir()
        for name in ("one", "deep/two", ".one.partial", "users"):
            (out / name).touch()
    with claimed(out) as folder:
        folder.begin("run", ["three"])
    assert {path.name for path in out.iterdir()} == {INVENTORY, "users"}


def test_a_file_of_the_user_in_the_way_is_refused_and_nothing_touched(tmp_path):
    list_files(tmp_path / "out", "one")
    for name in ("one", "two"):
        (tmp_path / "out" / name).write_text(name)
    with (
        claimed(tmp_path / "out") as folder,
        pytest.raises(InputError, match=r"out/two: expected no such file, or one"),
    ):
        folder.begin("run", ["one", "two"])
    assert [(tmp_path / "out" / name).read_text() for name in ("one", "two")] == ["one", "two"]


@pytest.mark.parametrize("name", ["../kept", "/kept", "a/../../kept", "a/b/c", "", "a\\b", 3])
def test_an_inventory_that_names_other_places_is_refused(tmp_path, name):
    list_files(tmp_path / "out", name)
    with pytest.raises(InputError, match="expected the list of files"), claimed(tmp_path / "out"):
        pass


def test_a_link_out_of_the_folder_is_followed_neither_to_remove_nor_to_write(tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "thesis").touch()
    list_files(tmp_path / "out", "tables/thesis")
    (tmp_path / "out" / "tables").symlink_to(tmp_path / "home")
    with claimed(tmp_path / "out") as folder:
        folder.begin("run", ["one"])
        with pytest.raises(InputError, match="found a link to another place"):
            folder.begin("run", ["tables/new"])
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["thesis"]


@pytest.mark.parametrize("link", [".units", ".views", ".units/joined", LOCK])
def test_a_link_in_the_place_of_what_is_unfinished_is_not_followed(tmp_path, link):
    (tmp_path / "home").mkdir()
    list_files(tmp_path / "out")
    (tmp_path / "out" / link).parent.mkdir(exist_ok=True)
    (tmp_path / "out" / link).symlink_to(tmp_path / "home" / ("new" if link == LOCK else ""))
    with pytest.raises(InputError, match=r"found a link|symbolic link"), claimed(tmp_path / "out"):
        pass
    assert list((tmp_path / "home").iterdir()) == []


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": []}', '{"files": {"run": 3}}', "[" * 100_000])
def test_an_inventory_that_is_none_is_refused(tmp_path, text):
    (tmp_path / INVENTORY).write_text(text)
    with pytest.raises(InputError, match="expected the list of files"), claimed(tmp_path):
        pass


def test_a_second_thread_is_refused_and_the_same_one_is_not(tmp_path):
    refused = []

    def claim() -> None:
        try:
            with claimed(tmp_path):
                pass
        except InputError as error:
            refused.append(str(error))

    with claimed(tmp_path), claimed(tmp_path):
        thread = threading.Thread(target=claim)
        thread.start()
        thread.join()
    assert refused == [f"{tmp_path}: another exitbench is writing to this folder; wait for it, or give another one"]
    with claimed(tmp_path):
        pass
    assert list(tmp_path.iterdir()) == []


HOLDER = """
import sys, time
from pathlib import Path
from exitbench.output_folder import claimed

with claimed(Path(sys.argv[1])):
    print("claimed", flush=True)
    time.sleep(600)
"""


@pytest.mark.process
def test_the_lock_of_a_killed_process_is_free(tmp_path):
    out = tmp_path / "out"
    program = [sys.executable, "-c", HOLDER, str(out)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parent.parent) as holder:
        assert holder.stdout.readline() == "claimed\n"
        with pytest.raises(InputError, match="another exitbench is writing"), claimed(out):
            pass
        holder.kill()
    assert (out / LOCK).exists()
    with claimed(out):
        pass
    assert list(out.iterdir()) == []


def test_a_folder_that_was_made_for_nothing_goes(tmp_path):
    with claimed(tmp_path / "a" / "b"):
        pass
    assert list(tmp_path.iterdir()) == []
