"""The executor that ``--executor`` names: this machine's pool, a cluster here or elsewhere, or a user's client."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from exitbench.errors import InputError, one_line
from exitbench.executors.executor import Executor
from exitbench.executors.local_pool import Workers

LOCAL = "local"
FORMS = "local, dask, tcp://HOST:PORT or FILE.py:FUNCTION"


def named_executor(name: str, jobs: int | None, default_jobs: int, modules: Sequence[str] = ()) -> Executor:
    """The executor of a name in one of :data:`FORMS`.

    ``jobs`` is what the user asked for, if anything: only for an executor that starts its own processes.
    """
    if name == LOCAL:
        return Workers(default_jobs if jobs is None else jobs, modules)
    from exitbench.executors import dask_cluster

    if name == "dask":
        Workers(count := default_jobs if jobs is None else jobs)  # refuses what is no number of processes
        return dask_cluster.local_cluster(count)
    address = name.startswith(("tcp://", "tls://"))
    file, _, function = name.rpartition(":")
    if not (names_port(name) if address else file.endswith(".py")):
        raise InputError(f"expected --executor {FORMS}, found {name!r}")
    if jobs is not None:
        raise InputError(f"--jobs counts processes that exitbench starts: expected none beside --executor {name}")
    if address:
        return dask_cluster.connected(name)
    return dask_cluster.DaskCluster(own_client(Path(file), function))


def names_port(address: str) -> bool:
    """Whether an address such as ``tcp://10.0.0.1:8786`` has a host and a possible port.

    >>> names_port("tcp://10.0.0.1:8786"), names_port("tcp://10.0.0.1"), names_port("tcp://10.0.0.1:99999")
    (True, False, False)
    """
    try:
        parts = urlsplit(address)
        return bool(parts.hostname and parts.port)
    except ValueError:
        return False


def own_client(file: Path, function: str) -> Any:
    """What a function of the user's file returns, which must be a Dask client."""
    from exitbench.executors.dask_cluster import require_distributed

    require_distributed()
    from distributed import Client

    if not file.is_file():
        raise InputError(f"--executor: expected a Python file, found no {file}")
    spec = importlib.util.spec_from_file_location(file.stem, file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        make = getattr(module, function, None)
        client = make() if callable(make) else None
    except (Exception, SystemExit) as error:  # the user's code: whatever it raises is theirs to read
        raise InputError(f"--executor: {file} failed with {type(error).__name__}: {one_line(error)}") from error
    if not callable(make):
        present = "none" if make is None else type(make).__name__
        raise InputError(f"--executor: expected a function {function!r} in {file}, found {present}")
    if not isinstance(client, Client):
        raise InputError(
            f"--executor: expected {file}:{function} to return a Dask client, found {type(client).__name__}"
        )
    if client.status != "running":
        raise InputError(
            f"--executor: expected {file}:{function} to return a running client, found a {client.status} one"
        )
    return client
