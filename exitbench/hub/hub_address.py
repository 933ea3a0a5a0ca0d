"""Where a cache lies on the hub: ``hf://datasets/ORG/NAME``, with ``@REVISION`` for a branch, a tag or a commit."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import cast

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from huggingface_hub.utils import logging as hub_logging
from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

import exitbench
from exitbench.errors import InputError, one_line

ADDRESS = re.compile(r"hf://datasets/(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>[\w./-]+))?", re.ASCII)
SCHEME = "hf://datasets/ORG/NAME"
REFUSALS = cast(tuple[type[Exception], ...], (*HfHubHTTPError.__bases__, ValueError))
"""What the HTTP library raises, whichever the hub's client uses, the system, and who reads an answer that is none."""


@dataclass(frozen=True)
class HubAddress:
    """A repository of the hub's kind ``dataset``, and one of its revisions: a branch, a tag or a commit."""

    repository: str
    revision: str = "main"

    def __str__(self) -> str:
        return f"hf://datasets/{self.repository}" + ("" if self.revision == "main" else f"@{self.revision}")

    @property
    def name(self) -> str:
        """The last part of the repository's name."""
        return self.repository.rpartition("/")[2]


def parse_address(text: str) -> HubAddress:
    """The address that a text spells; an InputError for any other text."""
    match = ADDRESS.fullmatch(text)
    if match is None or ".." in text:
        raise InputError(f"expected an address such as {SCHEME}, found {text!r}")
    return HubAddress(match["repository"], match["revision"] or "main")


def hub_client() -> HfApi:
    """The hub as huggingface_hub is set up: its address from ``HF_ENDPOINT``, the token of ``hf auth login``."""
    return HfApi(
        endpoint=os.environ.get("HF_ENDPOINT"), library_name="exitbench", library_version=exitbench.__version__
    )


@contextmanager
def hub_errors(address: HubAddress) -> Iterator[None]:
    """What the hub, or the way to it, refuses becomes an InputError of one line."""
    try:
        yield
    except RevisionNotFoundError:
        raise InputError(f"{address}: the hub has no revision {address.revision!r} of it") from None
    except RepositoryNotFoundError:
        raise InputError(f"{address}: the hub has no such dataset, or not for you: is `hf auth login` done?") from None
    except REFUSALS as error:
        raise InputError(f"{address}: {one_line(error)}") from error


@contextmanager
def quiet_hub() -> Iterator[None]:
    """Without the bars of huggingface_hub: a terminal has room for one, and that is ours; nor its words on retries."""
    were_off, verbosity = are_progress_bars_disabled(), hub_logging.get_verbosity()
    disable_progress_bars()
    hub_logging.set_verbosity(logging.CRITICAL)
    try:
        yield
    finally:
        hub_logging.set_verbosity(verbosity)
        if not were_off:
            enable_progress_bars()
