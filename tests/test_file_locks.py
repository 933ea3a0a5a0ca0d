"""A lock belongs to whoever has the name, and is given up however its holder ends."""

import os
from pathlib import Path

import pytest

from exitbench.file_locks import lock_name


def test_a_second_holder_gets_nothing_until_the_first_has_ended(tmp_path: Path) -> None:
    file = tmp_path / "a"

    def opened() -> int:
        return os.open(file, os.O_RDWR | os.O_CREAT)

    first = lock_name(file, opened)
    assert first is not None
    assert lock_name(file, opened) is None
    os.close(first)
    second = lock_name(file, opened)
    assert second is not None
    os.close(second)


@pytest.mark.parametrize("fate", ["removed", "renamed", "replaced"])
def test_what_lost_its_name_before_it_was_locked_is_opened_again(tmp_path: Path, fate: str) -> None:
    file, calls = tmp_path / "a", 0

    def opened() -> int:
        nonlocal calls
        calls += 1
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT)
        if calls == 1:
            file.rename(tmp_path / "b")
            if fate == "removed":
                (tmp_path / "b").unlink()
            elif fate == "replaced":
                file.touch()
        return descriptor

    descriptor = lock_name(file, opened)
    assert calls == 2
    assert descriptor is not None
    assert os.path.samestat(os.fstat(descriptor), file.stat())
    os.close(descriptor)


def test_a_name_that_never_stays_is_not_waited_for_and_nothing_stays_open(tmp_path: Path) -> None:
    file, descriptors = tmp_path / "a", []

    def opened() -> int:
        descriptors.append(os.open(file, os.O_RDWR | os.O_CREAT))
        file.unlink()
        return descriptors[-1]

    assert lock_name(file, opened) is None
    for descriptor in set(descriptors):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)
