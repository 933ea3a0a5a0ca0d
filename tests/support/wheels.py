"""A copy of this checkout, what is built from it, and a new environment that has it installed."""

import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("signals", "benchmarks", "reports")
BUILT_FROM = ("exitbench", *ROOMS, "pyproject.toml", "setup.py", "README.md", "LICENSE")


def checkout(folder: Path, *, links: bool) -> Path:
    """What a build needs of this checkout, in ``folder``; without links as git leaves it where there are none."""
    folder.mkdir()
    for name in BUILT_FROM:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(source, folder)
    for room in ROOMS:
        link = folder / "exitbench" / room
        link.unlink()
        if links:
            link.symlink_to(Path("..", room), target_is_directory=True)
        else:
            link.write_text(f"../{room}")
    return folder


def run(*words: str | Path, cwd: Path | None = None) -> str:
    """The standard output of a command that must succeed."""
    done = subprocess.run([str(word) for word in words], cwd=cwd, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def wheel(source: Path, out: Path) -> Path:
    """The wheel of a checkout or an unpacked sdist, built with the setuptools at hand, without a network."""
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--no-index", "-w", out, source)
    (path,) = out.glob("exitbench-*.whl")
    return path


def unpacked_sdist(source: Path, out: Path) -> Path:
    """The folder that the sdist of a checkout unpacks to."""
    program = "import sys; from setuptools.build_meta import build_sdist; build_sdist(sys.argv[1])"
    run(sys.executable, "-c", program, out, cwd=source)
    (archive,) = out.glob("exitbench-*.tar.gz")
    with tarfile.open(archive) as file:
        file.extractall(out, filter="data")
    return out / archive.name.removesuffix(".tar.gz")


def files_of(path: Path) -> set[str]:
    """The names of a wheel's files, less those that describe the wheel itself."""
    with zipfile.ZipFile(path) as file:
        return {name for name in file.namelist() if ".dist-info/" not in name}


def environment(folder: Path, built: Path) -> Path:
    """A new environment with a wheel in it, which sees the dependencies of this one; the folder of its programs."""
    venv.create(folder, with_pip=False)
    programs = folder / ("Scripts" if sys.platform == "win32" else "bin")
    install = ("install", "--no-deps", "--no-index", "--no-compile", built)
    run(sys.executable, "-m", "pip", "--python", programs / "python", *install)
    # Named only now, so that pip never looks at what is installed there.
    (packages,) = folder.rglob("site-packages")
    dependencies = [entry for entry in sys.path if Path(entry).name == "site-packages"]
    (packages / "dependencies.pth").write_text("\n".join(dependencies) + "\n")
    return programs
