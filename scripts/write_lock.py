"""Write ``requirements-lock.txt``: everything that the README's two commands install, with versions and hashes.

    python -m pip install --dry-run --ignore-installed --report report.json -c constraints.txt '.[dev]' tox
    python scripts/write_lock.py report.json requirements-lock.txt

pip resolves, this writes down what it chose. The hashes are those of the files for the platform and the Python that
resolve: Linux on x86-64, Python 3.11, the CPU build of torch.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any

HEAD = """\
# Every distribution that `pip install -e '.[models]'` and `tox` install, with the hash of its file: Linux on x86-64,
# Python 3.11, the CPU build of torch. Written by scripts/write_lock.py, as RELEASE.md says; not to be edited.
# pip install --require-hashes -r requirements-lock.txt && pip install --no-deps -e .
"""


def lock(report: dict[str, Any]) -> str:
    """The text of the lock file for a report of ``pip install --report``; exitbench itself is left out."""
    lines = []
    for item in report["install"]:
        name, version = re.sub(r"[-_.]+", "-", item["metadata"]["name"]).lower(), item["metadata"]["version"]
        hashes = item["download_info"].get("archive_info", {}).get("hashes", {})
        if name != "exitbench":
            lines.append(f"{name}=={version} --hash=sha256:{hashes['sha256']}\n")
    return HEAD + "".join(sorted(lines))


if __name__ == "__main__":
    source, target = map(Path, sys.argv[1:])
    target.write_text(lock(json.loads(source.read_text(encoding="utf-8"))), encoding="utf-8")
