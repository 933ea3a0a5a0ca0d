"""Model folders on disk: reading what the library wrote, and writing so that a half is never taken for a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer
from transformers.utils import logging

from exitbench.atomic_files import whole_folder
from exitbench.errors import InputError, one_line

TRAINING = "training.json"
"""The file of a model folder that says how the model was made."""
LONGEST_RECIPE = 300
LARGEST_COUNT = 1 << 63
COUNTED = {"seed": "seed", "epochs": "epochs", "training_rows": "train_rows"}
"""What a manifest calls the counts of a training, and what the training's settings call them."""
DISK_TROUBLE = (
    "No space left",
    "os error 28",
    "File too large",
    "os error 27",
    "quota exceeded",
    "Read-only file system",
    "Permission denied",
)
"""How safetensors and tokenizers, whose errors carry no number, word what only the user can put right."""


@contextmanager
def draft_folder(folder: Path) -> Iterator[Path]:
    """:func:`whole_folder` for libraries that hide the system's error in one of their own."""
    with whole_folder(folder) as draft:
        try:
            yield draft
        except OSError:
            raise
        except Exception as error:
            if any(sign in str(error) for sign in DISK_TROUBLE):
                raise InputError(f"{folder}: cannot be written: {one_line(error)}") from error
            raise


def library_config(source: str | Path) -> Any:
    """The library's configuration of a model: a folder, or a name on the hub."""
    try:
        return AutoConfig.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        problem = "no such folder" if not Path(source).exists() else one_line(error)
        raise InputError(
            f"expected a model folder or a hub name that can be reached, found {str(source)!r}: {problem}"
        ) from error


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer beside a model."""
    # For a folder without these files the library makes an empty tokenizer that knows no word.
    names = ("tokenizer.json", "vocab.txt", "vocab.json", "spiece.model", "spm.model", "sentencepiece.bpe.model")
    if Path(source).is_dir() and not any((Path(source) / name).is_file() for name in names):
        raise InputError(f"expected a tokenizer beside the model in {source}, found none of {', '.join(names)}")
    try:
        return AutoTokenizer.from_pretrained(str(source))
    except (OSError, ValueError) as error:
        raise InputError(f"expected a tokenizer beside the model in {source}, found: {one_line(error)}") from error


def training_facts(folder: Path) -> dict[str, str | int]:
    """How a model was trained, as far as its folder says: ``recipe``, ``seed``, ``epochs`` and ``training_rows``."""
    try:
        settings = json.loads((folder / TRAINING).read_text(encoding="utf-8"))["settings"]
        counts = {name: settings.get(key) for name, key in COUNTED.items()}
        recipe = settings.get("recipe")
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
    facts: dict[str, str | int] = {name: number for name, number in counts.items() if is_count(number)}
    if isinstance(recipe, str) and 0 < len(recipe) <= LONGEST_RECIPE and recipe.isprintable():
        facts["recipe"] = recipe
    return facts


def is_count(number: Any) -> bool:
    """Whether something is a whole number that a manifest can hold."""
    return isinstance(number, int) and not isinstance(number, bool) and 0 <= number < LARGEST_COUNT


@contextmanager
def quiet_library() -> Iterator[None]:
    """Hold back the library's load report: missing poolers and unused language-model heads are expected here."""
    library: Any = logging
    level, bars = library.get_verbosity(), library.is_progress_bar_enabled()
    library.set_verbosity_error()
    library.disable_progress_bar()
    try:
        yield
    finally:
        library.set_verbosity(level)
        if bars:
            library.enable_progress_bar()
