"""A cache to the hub: verified first, then uploaded file by file, then made visible by one commit."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import CommitOperationAdd, CommitOperationDelete

from exitbench.cache import Cache, verify
from exitbench.cache.card import cache_card
from exitbench.cache.format.files import child
from exitbench.cache.format.manifest import MANIFEST
from exitbench.errors import InputError
from exitbench.hub.dataset_card import dataset_card
from exitbench.hub.hub_address import HubAddress, hub_client, hub_errors, quiet_hub
from exitbench.progress import ProgressBar

CARD = "README.md"
KIND = "dataset"


def push_cache(path: Path, address: HubAddress, *, private: bool = False, licence: str | None = None) -> str:
    """Upload the cache at ``path`` and return the commit that has it; a defective one is refused.

    The repository is made if it is not there; ``private`` says whether it is then. Large files are stored on the hub
    by their content, so a push that was stopped goes on where it was. What a reader sees changes with the commit at
    the end, all at once: files of an earlier cache there, which this one does not have, go with it.
    """
    if problems := verify(path):
        raise InputError(f"{path}: not pushed: {problems[0]}")
    cache = Cache(path)
    if not cache.manifest.complete:
        raise InputError(f"{path}: not pushed: the cache is incomplete; resume its collection first")
    hub = hub_client()
    card = dataset_card(cache_card(cache), str(address), licence)
    files = [MANIFEST, *(entry.file for entry in cache.manifest.files)]
    repository, branch = address.repository, address.revision
    with hub_errors(address), quiet_hub(), ProgressBar("push", len(files)) as bar:
        hub.create_repo(repository, repo_type=KIND, private=private, exist_ok=True)
        additions = [CommitOperationAdd(CARD, card.encode())]
        for name in files:
            addition = CommitOperationAdd(name, child(path, name))
            hub.preupload_lfs_files(repository, [addition], repo_type=KIND, revision=branch)
            additions.append(addition)
            bar.advance(note=name)
        outdated = [
            CommitOperationDelete(name)
            for name in hub.list_repo_files(repository, repo_type=KIND, revision=branch)
            if name.endswith(".safetensors") and name not in files
        ]
        message = f"{cache.name}: {cache.rows} rows, {cache.layers} layers"
        operations: list[CommitOperationAdd | CommitOperationDelete] = [*additions, *outdated]
        commit = hub.create_commit(repository, operations, commit_message=message, repo_type=KIND, revision=branch)
    return commit.oid
