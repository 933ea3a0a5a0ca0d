"""A cluster of this machine: what goes wrong is told in the program's words, which alone answers Ctrl-C."""

import io
import logging
import os
import signal
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil
import pytest
from distributed import LocalCluster

from exitbench.errors import InputError
from exitbench.executors import dask_cluster
from exitbench.executors.dask_cluster import RETRIES, DaskCluster, connected, local_cluster
from exitbench.executors.executor import perform_all
from exitbench.executors.unit import Failure
from tests.executors.test_local_pool import ignore

pytestmark = pytest.mark.process


@dataclass(frozen=True)
class Full:
    """Meets a full disk, however often it is tried."""

    folder: Path
    tries: Path
    label: str = "full"

    def work(self) -> None:
        with self.tries.open("a") as file:
            file.write("x")
        raise OSError(28, "No space left on device")


@pytest.fixture
def cluster(capfd: pytest.CaptureFixture[str]) -> Iterator[DaskCluster]:
    """Of one worker, which was started while the terminal is watched."""
    with local_cluster(1) as executor:
        yield executor


def refuse(text: str) -> None:
    raise InputError(text)


def test_what_goes_wrong_in_a_worker_is_told_by_the_program_alone(cluster, tmp_path, capfd):
    failures = perform_all(cluster, [Full(tmp_path / "full", tmp_path / "tries")], ignore)
    assert [(failure.label, failure.reason) for failure in failures] == [
        ("full", "OSError: [Errno 28] No space left on device")
    ]
    assert isinstance(failures[0], Failure)
    assert len((tmp_path / "tries").read_text()) == 1 + RETRIES
    with pytest.raises(InputError, match="of those"):
        cluster.call_each(refuse, [("of those",)])
    cluster.call_each(os.getpid, [()])
    assert capfd.readouterr().err == ""


@pytest.mark.skipif(not hasattr(signal, "pthread_sigmask"), reason="Windows knows no signal masks")
def test_ctrl_c_in_a_terminal_does_not_reach_the_workers(cluster, capfd):
    (before,) = cluster.call_each(os.getpid, [()])
    os.kill(before, signal.SIGINT)
    assert cluster.call_each(os.getpid, [()] * 3) == [before] * 3
    assert capfd.readouterr().err == ""
    assert signal.SIGINT not in signal.pthread_sigmask(signal.SIG_BLOCK, ()), "this process still answers it"


def test_nothing_of_the_cluster_is_told_after_its_end(monkeypatch):
    close, written = LocalCluster.close, io.StringIO()

    def and_a_word(own, *words):
        close(own, *words)
        logging.getLogger("distributed.batched").error("what a thread says that ends later")

    monkeypatch.setattr(LocalCluster, "close", and_a_word)
    handler = logging.StreamHandler(written)
    logger = logging.getLogger("distributed")
    logger.addHandler(handler)
    try:
        with local_cluster(1):
            pass
        logger.error("of another cluster")
    finally:
        logger.removeHandler(handler)
    assert written.getvalue() == "of another cluster\n"


def test_an_interrupt_while_the_workers_start_leaves_none(monkeypatch):
    wait = LocalCluster.wait_for_workers

    def interrupted(*words, **options):
        wait(*words, **options)
        raise KeyboardInterrupt

    before = set(psutil.Process().children(recursive=True))
    monkeypatch.setattr(LocalCluster, "wait_for_workers", interrupted)
    with pytest.raises(KeyboardInterrupt):
        local_cluster(2)
    left = set(psutil.Process().children(recursive=True)) - before
    assert not [process for process in left if "resource_tracker" not in " ".join(process.cmdline())]


def test_what_takes_a_connection_and_says_nothing_is_no_scheduler(monkeypatch, capsys):
    monkeypatch.setattr(dask_cluster, "PATIENCE", 0.3)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(
            InputError, match=rf"expected a Dask scheduler at {address}, found none: no answer within 0 s"
        ):
            connected(address)
    assert capsys.readouterr().err == f"no scheduler at {address} yet: waiting for 0 s\n"


def test_tls_without_its_settings_is_refused_in_a_line():
    with pytest.raises(InputError, match=r"expected a Dask scheduler at tls://127\.0\.0\.1:9, found none: .*TLS"):
        connected("tls://127.0.0.1:9")
