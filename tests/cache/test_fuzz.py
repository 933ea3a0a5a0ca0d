"""Hostile manifests and shard headers: never a traceback, a hang, or a read outside the directory."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from exitbench.cache import Cache, cache_card, synthetic_cache, verify
from exitbench.cache.format.manifest import MANIFEST
from exitbench.errors import InputError
from tests.support.hostile_values import ANYTHING, key_paths, replaced

FUZZ = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


VERSIONS: dict[str, dict[str, Any]] = {
    "version 1": {"width": 3},
    "version 2": {"widths": [3, 2], "costs": [1, 2], "outputs": ["lte"], "group_rows": 4, "role": "calibration"},
}


@pytest.fixture(scope="module", params=VERSIONS.values(), ids=VERSIONS.keys())
def pristine(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Path:
    return synthetic_cache(tmp_path_factory.mktemp("fuzz") / "cache", rows=20, layers=2, shard_rows=10, **request.param)


@pytest.fixture
def opened_files(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[Path]]:
    """Every file that is opened through pathlib or numpy while a test runs."""
    import numpy as np

    seen: set[Path] = set()
    path_open, memmap = Path.open, np.memmap.__new__

    def watched_open(self: Path, *rest: Any, **more: Any) -> Any:
        seen.add(self.resolve())
        return path_open(self, *rest, **more)

    def watched_map(cls: Any, filename: Any, *rest: Any, **more: Any) -> Any:
        seen.add(Path(filename).resolve())
        return memmap(cls, filename, *rest, **more)

    monkeypatch.setattr(Path, "open", watched_open)
    monkeypatch.setattr(np.memmap, "__new__", watched_map)
    yield seen


def use(cache: Path) -> None:
    """Everything a reader can do; an InputError of one line is the only way out."""
    for action in (
        lambda: cache_card(Cache(cache)),
        lambda: verify(cache),
        lambda: Cache(cache).features(1),
        lambda: Cache(cache).output("lte", 2),
        lambda: Cache(cache).truth("final"),
    ):
        try:
            action()
        except InputError as error:
            assert "\n" not in str(error)


@pytest.mark.long
@FUZZ
@given(data=st.data(), new=ANYTHING)
def test_any_value_anywhere_in_the_manifest(
    pristine: Path, opened_files: set[Path], data: st.DataObject, new: Any
) -> None:
    original = (pristine / MANIFEST).read_bytes()
    value = json.loads(original)
    key_path = data.draw(st.sampled_from(list(key_paths(value))))
    try:
        (pristine / MANIFEST).write_text(json.dumps(replaced(value, key_path, new)))
        opened_files.clear()
        use(pristine)
        inside = pristine.resolve()
        assert all(path.parent == inside or path.suffix in (".py", ".json") for path in opened_files), opened_files
    finally:
        (pristine / MANIFEST).write_bytes(original)


@pytest.mark.long
@FUZZ
@given(
    data=st.data(),
    new=ANYTHING,
    file=st.sampled_from(["shard-00000.safetensors", "shard-00001.features.safetensors", "heads.safetensors"]),
)
def test_any_value_anywhere_in_a_shard_header(pristine: Path, data: st.DataObject, new: Any, file: str) -> None:
    path = pristine / file
    original = path.read_bytes()
    length = int.from_bytes(original[:8], "little")
    header = json.loads(original[8 : 8 + length])
    key_path = data.draw(st.sampled_from(list(key_paths(header))))
    text = json.dumps(replaced(header, key_path, new)).encode()
    try:
        path.write_bytes(len(text).to_bytes(8, "little") + text + original[8 + length :])
        use(pristine)
    finally:
        path.write_bytes(original)


@pytest.mark.long
@FUZZ
@given(data=st.data(), file=st.sampled_from([MANIFEST, "shard-00000.safetensors", "heads.safetensors"]))
def test_any_bytes_changed_cut_or_added(pristine: Path, data: st.DataObject, file: str) -> None:
    path = pristine / file
    original = path.read_bytes()
    start = data.draw(st.integers(0, min(len(original), 400)))
    stop = data.draw(st.integers(start, min(len(original), start + 50)))
    try:
        path.write_bytes(original[:start] + data.draw(st.binary(max_size=30)) + original[stop:])
        use(pristine)
    finally:
        path.write_bytes(original)
