"""Without transformers, datasets and accelerate, everything that reads a cache works; a model is one clear refusal."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from exitbench.cli.app import VERBS
from exitbench.places import CACHES
from tests.support.checked_suite import SUITE

pytestmark = pytest.mark.process

EXTRA = ("transformers", "datasets", "accelerate")
HUB = ("huggingface_hub",)
ABSENT = f"import sys\nsys.modules.update(dict.fromkeys({(*EXTRA, *HUB)!r}))\n"
"""As ``sitecustomize``: every process, the workers too, finds none of them."""

PROGRAM = """
import json, sys
from exitbench.cli.app import main
codes = []
for words in json.loads(sys.argv[1]):
    try:
        main(words)
    except SystemExit as ended:
        codes.append(ended.code)
print("CODES", json.dumps(codes))
"""

QUICK = "--signals deebert --signals cap --protocol in-sample --resamples 2"
CORE = f"""
list signals
inspect little
compact with-features compacted
derive temperature --train with-features --on with-features --out derived
cascade little little --costs 1,4 --out cascaded
import arrays.npz --task sst2 --split dev --out imported
verify imported
score little --signal deebert --out scores.parquet
threshold little --signal deebert --speed-up 2 --resamples 2 --out policy.json
watch-drift policy.json answers.csv
run little {QUICK} --jobs 1 --out a
run little {QUICK} --jobs 2 --out b
report a
site a b --out pages
table a
figure a
power a
compare a b
check small.toml --update --jobs 2
check small.toml --jobs 1
new-signal gap --dir mine
test-signal mine/gap.py
cost --out costs
""".strip().splitlines()
MODELS = """
train --model encoder --task sst2 --out trained
collect --model trained --out collected
infer --model trained --signal deebert --threshold 0.5 texts.txt
cost --model trained
cost --time --layers 2 --width 8 --intermediate 8 --length 4
""".strip().splitlines()
SHARING = """
push little hf://datasets/me/little
pull hf://datasets/me/little pulled
""".strip().splitlines()


def ended(folder: Path, commands: list[str]) -> tuple[list[int], str, str]:
    """The exit codes of the commands in one process without the extra, and what it printed."""
    (folder / "absent").mkdir()
    (folder / "absent" / "sitecustomize.py").write_text(ABSENT)
    words = json.dumps([shlex.split(line) for line in commands])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(["absent", *sys.path])},
        capture_output=True,
        text=True,
        check=False,
    )
    out, _, codes = done.stdout.rpartition("CODES ")
    assert codes, done.stderr
    return json.loads(codes), out, done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    generator = np.random.default_rng(0)
    (tmp_path / "caches").mkdir()
    for link, name in (
        ("little", "minilm-l6-sst2-dev"),
        ("caches/little", "minilm-l6-sst2-dev"),
        ("with-features", "mpnet-base-sst2-dev"),
    ):
        (tmp_path / link).symlink_to(CACHES / name)
    np.savez(tmp_path / "arrays.npz", labels=generator.integers(0, 2, 40), logits=generator.normal(size=(4, 40, 2)))
    (tmp_path / "answers.csv").write_text("exit_layer,score\n2,0.1\n6,\n")
    (tmp_path / "small.toml").write_text(SUITE.replace('"nsp", "cap[alpha=0.1|1]"', '"cap"'))
    return tmp_path


def test_every_verb_is_tried_here() -> None:
    endless = {"watch"}  # it ends by Ctrl-C only, and has a test of its own
    assert {line.split()[0] for line in CORE + MODELS + SHARING} == set(VERBS) - endless


def test_everything_that_reads_a_cache_works(folder: Path) -> None:
    codes, out, errors = ended(folder, CORE)
    assert dict(zip(CORE, codes, strict=True)) == dict.fromkeys(CORE, 0), out + errors
    for name in ("a/report.html", "b/report.html", "compacted/manifest.json", "scores.parquet", "costs/cost.json"):
        assert (folder / name).is_file(), name


def test_what_needs_a_model_is_refused_in_one_line(folder: Path) -> None:
    codes, out, errors = ended(folder, MODELS)
    assert codes == [2] * 5
    refusal = f"error: a model needs the models extra: pip install 'exitbench[models]' (found no {', '.join(EXTRA)})"
    assert (out, errors.splitlines()) == ("", [refusal] * 5)


def test_what_needs_the_hub_is_refused_in_one_line(folder: Path) -> None:
    codes, out, errors = ended(folder, SHARING)
    refusal = "error: the hub needs the hub extra: pip install 'exitbench[hub]' (found no huggingface_hub)"
    assert (codes, out, errors.splitlines()) == ([2, 2], "", [refusal] * 2)


def test_the_help_of_every_verb_needs_no_extra(folder: Path) -> None:
    codes, _, errors = ended(folder, [f"{verb} --help" for verb in VERBS])
    assert (set(codes), errors) == ({0}, "")


def test_a_program_that_imports_the_models_sees_an_import_error(folder: Path) -> None:
    (folder / "sitecustomize.py").write_text(ABSENT)
    program = "try: import exitbench.models\nexcept ImportError as error: print(error)"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("a model needs the models extra: pip install 'exitbench[models]'")
