"""Which packages are built; everything else is in pyproject.toml.

exitbench/signals, exitbench/benchmarks and exitbench/reports are symbolic links to the folders at the top level. Where
git made text files of them (on Windows, unless core.symlinks is set), those folders are named here instead, so that a
wheel holds the same files.
"""

from pathlib import Path

from setuptools import find_packages, setup

packages = find_packages(include=["exitbench", "exitbench.*"])
package_dir = {}
for room in ("signals", "benchmarks", "reports"):
    if not Path("exitbench", room).is_dir():
        packages += [f"exitbench.{name}" for name in find_packages(include=[room, f"{room}.*"])]
        package_dir[f"exitbench.{room}"] = room

setup(
    packages=[name for name in packages if not name.startswith("exitbench.benchmarks.speed")],
    package_dir=package_dir,
)
