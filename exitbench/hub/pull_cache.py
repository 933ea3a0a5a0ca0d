"""A cache from the hub: the files that its manifest lists, at one commit, believed only after ``verify``."""

from __future__ import annotations

from pathlib import Path

from exitbench.atomic_files import disk, whole_folder
from exitbench.cache import unlisted_files, verify
from exitbench.cache.format.manifest import MANIFEST, Manifest
from exitbench.cache.format.manifest_file import read_manifest
from exitbench.errors import InputError
from exitbench.hub.hub_address import HubAddress, hub_client, hub_errors, quiet_hub
from exitbench.progress import ProgressBar


def pull_cache(address: HubAddress, target: Path) -> str:
    """Download a cache to the folder ``target`` and return the commit that it comes from.

    The files are gathered beside ``target`` and take its name when all of them are there and good. What was
    downloaded before an error, Ctrl-C or a kill stays there, and the same call goes on with it. Nothing but the
    manifest and what it lists is downloaded. A defective cache is an InputError and leaves nothing.
    """
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise InputError(f"{target}: expected nothing or an empty directory, found other files")
    hub = hub_client()
    with whole_folder(target, resumable=True) as folder:
        with hub_errors(address), quiet_hub():
            commit = str(hub.dataset_info(address.repository, revision=address.revision).sha)

            def fetch(name: str) -> None:
                hub.hf_hub_download(address.repository, name, repo_type="dataset", revision=commit, local_dir=folder)

            fetch(MANIFEST)
            manifest = pulled_manifest(folder, address)
            with ProgressBar("pull", len(manifest.files)) as bar:
                for entry in manifest.files:
                    fetch(entry.file)
                    bar.advance(note=entry.file)
        refuse_defects(folder, address)
        for name in unlisted_files(folder):  # what huggingface_hub notes about its downloads
            disk.remove(folder / name)
    return commit


def pulled_manifest(folder: Path, address: HubAddress) -> Manifest:
    """The manifest that was downloaded; an InputError for one that is none, of which nothing is kept."""
    try:
        return read_manifest(folder)
    except InputError as error:
        raise refusal(folder, address, str(error)) from error


def refuse_defects(folder: Path, address: HubAddress) -> None:
    """An InputError for a downloaded cache that is not what it says it is, which is then removed."""
    problems = verify(folder)
    if not problems and not read_manifest(folder).complete:
        problems = ["its collection has not ended"]
    if problems:
        raise refusal(folder, address, problems[0])


def refusal(folder: Path, address: HubAddress, problem: str) -> InputError:
    """What to say of a defective cache, once it is removed."""
    for path in folder.iterdir():
        disk.remove(path)
    said = problem.replace(f"{folder}/", "").removeprefix(f"{folder}: ")
    return InputError(f"{address}: not a good cache, nothing is kept of it: {said}")
