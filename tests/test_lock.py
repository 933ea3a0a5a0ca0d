"""The lock lists everything that is installed, with hashes; workflows name their actions by commit."""

import platform
import re
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
LINE = re.compile(r"([a-z0-9-]+)==(\S+) --hash=sha256:[0-9a-f]{64}")


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def locked() -> dict[str, str]:
    lines = [line for line in (ROOT / "requirements-lock.txt").read_text().splitlines() if not line.startswith("#")]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), "expected name==version --hash=sha256:... on every line, so neither hosts nor paths"
    return {match[1]: match[2] for match in matches if match}


def installed_for(extras: set[str]) -> dict[str, str]:
    """The installed distributions that exitbench with these extras needs, directly or not, with their versions."""
    versions: dict[str, str] = {}
    seen: set[tuple[str, str]] = set()
    open_requirements = [(Requirement("exitbench"), extra) for extra in ("", *extras)]
    while open_requirements:
        requirement, extra = open_requirements.pop()
        name = normal(requirement.name)
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        versions[name] = found.version
        for text in found.requires or ():
            needed = Requirement(text)
            if needed.marker is None or needed.marker.evaluate({"extra": extra}):
                open_requirements += [(needed, wanted) for wanted in ("", *needed.extras)]
    return versions


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
def test_every_installed_distribution_is_in_the_lock_with_its_version() -> None:
    versions = installed_for({"dev"})
    versions.pop("exitbench")
    assert len(versions) > 50
    lock = locked()
    assert {name: lock.get(name) for name in versions} == versions


def test_workflows_name_their_actions_by_commit() -> None:
    actions = [
        action
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for action in re.findall(r"uses: +(\S+)", path.read_text())
    ]
    assert actions
    for action in actions:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", action), action
