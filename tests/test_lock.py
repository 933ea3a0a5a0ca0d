"""The lock lists everything that is installed, with hashes; workflows name their actions by commit."""

import importlib.util
import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parents[1]
spec = importlib.util.spec_from_file_location("write_lock", ROOT / "scripts/write_lock.py")
assert spec is not None
assert spec.loader is not None
write_lock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(write_lock)

LINE = re.compile(r"([a-z0-9-]+)(?:\[([a-z0-9,]+)\])?==(\S+) --hash=sha256:[0-9a-f]{64}")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def lock_lines() -> list[tuple[str, set[str], str]]:
    """Name, extras and version of every line."""
    lines = [line for line in (ROOT / "requirements-lock.txt").read_text().splitlines() if not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), "expected name==version --hash=sha256:... on every line, so neither hosts nor paths"
    return [(match[1], set(filter(None, (match[2] or "").split(","))), match[3]) for match in matches if match]


def locked() -> dict[str, str]:
    return {name: version for name, _, version in lock_lines()}


def installed_for(extras: set[str]) -> tuple[dict[str, str], dict[str, set[str]]]:
    """The installed distributions that exitbench with these extras needs, directly or not: versions and extras."""
    versions: dict[str, str] = {}
    asked: dict[str, set[str]] = {}
    seen: set[tuple[str, str]] = set()
    open_requirements = [(Requirement("exitbench"), extra) for extra in ("", *extras)]
    while open_requirements:
        requirement, extra = open_requirements.pop()
        name = normal(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        asked.setdefault(name, set()).update({extra} - {""})
        try:
            installed = distribution(name)
        except PackageNotFoundError:
            continue
        versions[name] = installed.version
        for text in installed.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                open_requirements += [(needed, wanted) for wanted in ("", *needed.extras)]
    return versions, asked


def test_the_lock_agrees_with_the_constraints() -> None:
    lock = locked()
    for line in (ROOT / "constraints.txt").read_text().splitlines():
        if line and not line.startswith("#"):
            name, version = line.split("==")
            assert lock[normal(name)].split("+")[0] == version, line


@pytest.mark.e2e
@pytest.mark.skipif(
    (sys.version_info[:2], sys.platform, platform.machine()) != ((3, 11), "linux", "x86_64"),
    reason="the lock is for Linux on x86-64 and Python 3.11",
)
def test_every_installed_distribution_is_in_the_lock_and_not_newer_there() -> None:
    """What nothing pins (a dependency of a dependency) has newer releases between two of ours, which fail nothing."""
    versions, extras = installed_for({"dev"})
    versions.pop("exitbench")
    assert len(versions) > 50
    lock = locked()
    assert set(versions) <= set(lock)
    assert {name: lock[name] for name in versions if Version(lock[name]) > Version(versions[name])} == {}
    for name, listed, _ in lock_lines():
        assert extras.get(name, set()) <= listed, f"{name}: pip 23 refuses a lock without the extra that is asked for"


def report_of(*distributions: tuple[str, str, list[str]]) -> dict[str, Any]:
    """What ``pip install --report`` writes about distributions with these names, versions and requirements."""
    return {
        "install": [
            {
                "metadata": {"name": name, "version": version, "requires_dist": requirements},
                "download_info": {"archive_info": {"hashes": {"sha256": f"{number:064x}"}}},
            }
            for number, (name, version, requirements) in enumerate(distributions)
        ]
    }


def test_an_extra_that_something_asks_for_is_part_of_the_line() -> None:
    report = report_of(
        ("exitbench", "1", ["Py_Test.Cov"]),
        ("py-test-cov", "2", ["coverage[toml]>=1", 'other[x]; python_version < "3"']),
        ("Coverage", "3", ['tomli[fast]; extra == "toml"', 'other[never]; extra == "else"']),
        ("tomli", "4", []),
        ("other", "5", []),
    )
    lines = [line for line in write_lock.lock(report).splitlines() if not line.startswith("#")]
    assert [line.partition(" ")[0] for line in lines] == [
        "coverage[toml]==3",
        "other==5",
        "py-test-cov==2",
        "tomli[fast]==4",
    ]
    assert lines[0].endswith(f"--hash=sha256:{2:064x}")


def test_workflows_name_their_actions_by_commit() -> None:
    actions = [
        action
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for action in re.findall(r"uses: +(\S+)", path.read_text())
    ]
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
