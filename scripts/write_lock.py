"""Write ``requirements-lock.txt``: everything that the README's two commands install, with versions and hashes.

    python -m pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[dev]' tox
    python scripts/write_lock.py report.json requirements-lock.txt

pip resolves, this writes down what it chose. The hashes are those of the files for the platform and the Python that
resolve: Linux on x86-64, Python 3.11, the CPU build of torch.
"""

import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

HEAD = """\
# Every distribution that `pip install -e '.[models]'` and `tox` install, with the hash of its file: Linux on x86-64,
# Python 3.11, the CPU build of torch. Written by scripts/write_lock.py, as RELEASE.md says; not to be edited.
# pip install --require-hashes -r requirements-lock.txt && pip install --no-deps -e .
# pip must know where that build of torch lies: --extra-index-url URL, or --find-links FOLDER.
"""


def lock(report: dict[str, Any]) -> str:
    """The text of the lock file for a report of ``pip install --report``; exitbench itself is left out.

    A distribution that another one needs with an extra is listed with it (``coverage[toml]``): pip 23 would otherwise
    take the requirement for one without a version and refuse the whole file.
    """
    items = {canonicalize_name(item["metadata"]["name"]): item for item in report["install"]}
    extras = needed_extras(report)
    lines = []
    for name, item in items.items():
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if name != "exitbench":
            wanted = f"[{','.join(sorted(extras[name]))}]" if extras[name] else ""
            lines.append(f"{name}{wanted}=={item['metadata']['version']} --hash=sha256:{hashes['sha256']}\n")
    return HEAD + "".join(sorted(lines))


def needed_extras(report: dict[str, Any]) -> dict[str, set[str]]:
    """The extras of each distribution that are asked for by what is installed, directly or not."""
    requirements = {
        canonicalize_name(item["metadata"]["name"]): item["metadata"].get("requires_dist", [])
        for item in report["install"]
    }
    extras: dict[str, set[str]] = defaultdict(set)
    for item in report["install"]:
        extras[canonicalize_name(item["metadata"]["name"])] |= set(item.get("requested_extras", ()))
    seen: set[tuple[str, str]] = set()
    while open_pairs := {(name, extra) for name in requirements for extra in ("", *extras[name])} - seen:
        seen |= open_pairs
        for name, extra in open_pairs:
            for requirement in map(Requirement, requirements[name]):
                if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
                    extras[canonicalize_name(requirement.name)] |= requirement.extras
    return extras


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(lock(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
