"""A cache as every verb's argument names it: a cache of the clone by its bare name, any other by its path or URL."""

from __future__ import annotations

from pathlib import Path

from exitbench.cli.terminal import echo


def named_cache(target: str) -> Path:
    """The folder of a cache; an InputError with the nearest names where there is none.

    A bare word that names a cache of the clone is that, whatever lies in the current folder: a folder of the same name
    is meant by ``./word``.
    """
    from exitbench.cache.object_store import fetched_cache, is_url
    from exitbench.errors import InputError, did_you_mean
    from exitbench.places import cache_directories

    if is_url(target):
        return fetched_cache(target)
    path, fixtures = Path(target), {path.name: path for path in cache_directories()}
    if target in fixtures:
        if (path / "manifest.json").is_file():
            echo(f"note: {target} is the cache of the clone; the cache in this folder is ./{target}", err=True)
        return fixtures[target]
    if not path.exists():
        raise InputError(f"{target!r} is no cache.{did_you_mean(target, fixtures)}")
    # `.` and `..` have no name of their own; links keep theirs.
    return path.resolve() if path.name in ("", "..") else path
