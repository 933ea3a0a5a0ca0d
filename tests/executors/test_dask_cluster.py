"""A run over Dask: the bytes of one process, also when a worker is killed; whoever lacks something is told so."""

import hashlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from distributed import Client, LocalCluster

from exitbench.benchmarks.results.schema import SCHEMAS
from exitbench.benchmarks.run.run_suite import run_suite
from exitbench.benchmarks.suites.suite import Suite
from exitbench.benchmarks.suites.suite_file import suite_of_caches
from exitbench.cache import synthetic_cache
from exitbench.errors import InputError
from exitbench.executors import dask_cluster, same_package
from exitbench.executors.attempt import Refusal, perform_anywhere
from exitbench.executors.dask_cluster import LOST_EACH_TIME, DaskCluster, connected, local_cluster
from exitbench.executors.executor import perform_all
from exitbench.executors.named_executor import named_executor
from exitbench.executors.same_package import package_digest
from exitbench.executors.unit import Failure, is_done
from tests.executors.test_local_pool import Lost, Note, Patient, Wrong, ignore
from tests.support.command_line import exit_code

pytestmark = pytest.mark.process

WAITING = '''
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar
from exitbench import ExitSignal, Reference

PROCESS = Path(__file__).parent.parent / "process"

@dataclass(frozen=True)
class Waiting(ExitSignal):
    """Says which process it is in, and waits there to be killed; the next one goes on."""

    name: ClassVar[str] = "waiting"
    title: ClassVar[str] = "Waiting"
    reference: ClassVar[Reference] = Reference("nowhere", 2000, "https://example.org")
    exits_when: ClassVar[str] = "<"
    inputs: ClassVar[frozenset] = frozenset({"logits"})

    def score(self, layer):
        try:
            with PROCESS.open("x") as file:
                file.write(f"{os.getpid()}\\n")
            time.sleep(120)
        except FileExistsError:
            pass
        return layer.logits64[:, 0]
'''


@dataclass(frozen=True)
class Refused:
    """Meets a system that refuses the first time."""

    folder: Path
    met: Path
    label: str = "refused"

    def work(self) -> None:
        if not self.met.exists():
            self.met.touch()
            raise OSError("the file server did not answer")


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    root = tmp_path_factory.mktemp("caches")
    made = {"rows": 50, "layers": 4, "width": 4, "compact": True, "model": "m"}
    caches = [synthetic_cache(root / f"m-{task}-dev", task=task, seed=ord(task), **made) for task in "ab"]
    tiny = replace(suite_of_caches(caches), name="tiny").with_signals(("deebert", "waiting"))
    return tiny.asking(speed_ups=(1.5,), primary_speed_up=1.5, rates_speed_up=1.5, losses=(2.0,), resamples=5, folds=2)


@pytest.fixture(scope="module")
def signals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a signal that the first process that meets it does not survive."""
    folder = tmp_path_factory.mktemp("own") / "signals"
    folder.mkdir()
    (folder / "waiting.py").write_text(WAITING)
    return folder


@pytest.fixture(scope="module")
def expected(suite: Suite, signals: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The digests of what one process makes."""
    process = signals.parent / "process"
    process.touch()
    out = tmp_path_factory.mktemp("one") / "out"
    assert run_suite(suite, out, directories=[signals]).complete
    process.unlink()
    return digests(out)


@pytest.fixture(scope="module")
def cluster() -> Iterator[DaskCluster]:
    with local_cluster(2) as executor:
        yield executor


@pytest.fixture
def scheduler(tmp_path: Path) -> Iterator[str]:
    """A scheduler and two workers, each a program of its own as on a cluster; the address of the scheduler."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    file = tmp_path / "scheduler.json"
    dask = [sys.executable, "-m", "dask"]
    commands = [
        [*dask, "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
        *[[*dask, "worker", "--scheduler-file", str(file), "--nthreads", "1", "--no-nanny", "--no-dashboard"]] * 2,
    ]
    programs = []
    try:
        for command in commands:
            programs.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL))
        with Client(scheduler_file=str(file), timeout=60) as client:
            client.wait_for_workers(2, timeout=60)
            yield client.scheduler.address
    finally:
        for program in programs:
            program.kill()
            program.wait()


def digests(out: Path) -> dict[str, str]:
    return {name: hashlib.sha256((out / f"{name}.parquet").read_bytes()).hexdigest() for name in (*SCHEMAS, "across")}


def killed_once(file: Path) -> threading.Thread:
    """A thread that waits for a process to write its number, and kills it."""

    def kill() -> None:
        end = time.monotonic() + 100
        while time.monotonic() < end:
            if file.exists() and file.read_text().endswith("\n"):
                os.kill(int(file.read_text()), signal.SIGKILL)
                return
            time.sleep(0.02)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread


def test_two_processes_of_a_local_cluster_write_the_bytes_of_one_process(suite, signals, expected, cluster, tmp_path):
    (signals.parent / "process").write_text("nobody is to wait")
    outcome = run_suite(suite, tmp_path / "out", directories=[signals], executor=cluster)
    (signals.parent / "process").unlink()
    assert outcome.complete
    assert digests(tmp_path / "out") == expected


def test_a_worker_that_is_killed_costs_only_its_unit(suite, signals, expected, scheduler, tmp_path):
    killer = killed_once(signals.parent / "process")
    with named_executor(scheduler, None, 1) as executor:
        assert executor.jobs == 2
        outcome = run_suite(suite, tmp_path / "out", directories=[signals], executor=executor)
        killer.join()
        assert executor.jobs == 1
    (signals.parent / "process").unlink()
    assert outcome.complete
    assert digests(tmp_path / "out") == expected
    assert not (tmp_path / "out" / ".units").exists()


def test_a_local_cluster_is_reached_from_this_machine_only(cluster):
    own = psutil.Process()
    listening = {
        connection.laddr.ip
        for process in (own, *own.children(recursive=True))
        for connection in process.net_connections()
        if connection.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    assert "2 workers of tcp://127.0.0.1:" in cluster.description
    assert ("dashboard at http://127.0.0.1" in cluster.description) == dask_cluster.has_dashboard()


def test_failures_are_told_in_order_and_what_the_system_refused_is_tried_again(cluster, tmp_path):
    bad, good = [Wrong(tmp_path / name, name) for name in "ab"], Note(tmp_path / "good")
    refused = Refused(tmp_path / "refused", tmp_path / "met")
    failures = perform_all(cluster, [bad[0], good, refused, bad[1]], ignore)
    assert failures == [Failure(name, f"ValueError: bad {name}") for name in "ab"]
    assert is_done(good)
    assert is_done(refused)
    assert {path.name for path in tmp_path.iterdir()} == {"good", "refused", "met"}


def test_a_unit_that_ends_every_worker_fails_and_the_next_is_done(tmp_path, capfd):
    own = LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        scheduler_kwargs={"allowed_failures": 0},
    )
    with DaskCluster(Client(own), owned=own) as executor:
        units = [Lost(tmp_path / "lost"), Note(tmp_path / "note")]
        assert perform_all(executor, units, ignore) == [Failure("lost", LOST_EACH_TIME)]
        # A worker amid its work is ended, too: at once, without a word, and with what it has half done.
        executor.hand_out(Patient(tmp_path / "patient", tmp_path / "never"))
        wait_until(lambda: any(tmp_path.glob(".patient.*")))
        (process,) = [psutil.Process(nanny.pid) for nanny in own.workers.values()]
        capfd.readouterr()
    wait_until(lambda: has_ended(process))
    assert is_done(units[1])
    assert {path.name for path in tmp_path.iterdir() if not path.is_file()} == {"note"}
    assert "CancelledError" not in capfd.readouterr().err, "it was asked to stop, and told of that"


def test_verbs_send_their_work_to_the_scheduler_that_is_named(suite, cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    address = cluster._client.scheduler.address
    source = synthetic_cache(tmp_path / "source", rows=40, layers=3, width=4)
    for name, executor in (("here", "local"), ("there", address)):
        words = ("derive", "temperature", "--train", source, "--on", source, "--out", name, "--executor", executor)
        assert exit_code(*words) == 0
    assert "executor: 2 workers of tcp://127.0.0.1:" in capsys.readouterr().err
    made = [{file.name: file.read_bytes() for file in (tmp_path / name).iterdir()} for name in ("here", "there")]
    assert made[0] == made[1]
    assert run_suite(suite.with_signals(("deebert",)), tmp_path / "out").complete
    pages = []
    for executor in ("local", address):
        assert exit_code("report", "out", "--executor", executor) == 0
        pages.append((tmp_path / "out/report.html").read_bytes())
        (tmp_path / "out/report.html").unlink()
    assert pages[0] == pages[1]


def test_an_error_takes_back_what_was_handed_out(cluster, tmp_path):
    for number in range(20):
        cluster.hand_out(Note(tmp_path / str(number)))
    cluster.stop()
    assert cluster.ended(wait=False) == []
    assert cluster.call_each(divmod, [(7, 2), (9, 4)]) == [(3, 1), (2, 1)]


def wait_until(holds):
    end = time.monotonic() + 100
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def has_ended(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_while_there_is_no_worker_one_line_says_so(cluster, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(dask_cluster, "SILENCE", 0.01)
    monkeypatch.setattr(cluster._client, "nthreads", dict)
    unit = Patient(tmp_path / "unit", tmp_path / "message")
    cluster.hand_out(unit)
    threading.Timer(0.2, unit.awaited.touch).start()
    assert cluster.ended(wait=True) == [(unit, None)]
    said = capsys.readouterr().err
    assert said == f"no worker is left of {cluster._client.scheduler.address}: waiting for another one\n"


def test_what_a_lost_scheduler_was_to_do_is_named_in_one_line(cluster, tmp_path):
    with pytest.raises(InputError, match=r"to do note, found that it is gone .*; the same command goes on"):
        cluster._outcome(SimpleNamespace(status="cancelled"), Note(tmp_path / "note"))


def test_workers_with_another_exitbench_are_refused_whatever_they_are_asked_for(cluster, monkeypatch):
    address = cluster._client.scheduler.address
    with monkeypatch.context() as patch:
        patch.setattr(same_package, "KINDS", (".py",))  # here, and not in the workers
        package_digest.cache_clear()
        with pytest.raises(InputError, match="same exitbench as this process, found another one"):
            connected(address)
    package_digest.cache_clear()
    connected(address).close()
    with pytest.raises(InputError, match=r"same exitbench as this process, found: .*invalid literal"):
        cluster.ask_all(int, "as one that cannot be loaded")


def test_the_exception_of_a_call_is_raised_here(cluster):
    with pytest.raises(InputError, match="of those"):
        cluster.call_each(refuse, [("of those",)])


def refuse(text: str) -> None:
    raise InputError(text)


def test_workers_that_do_not_see_the_folder_are_told(suite, signals, cluster, tmp_path, monkeypatch):
    from exitbench.benchmarks.run import stages

    monkeypatch.setattr(stages, "SEEN", "a/folder/that/nobody/made")
    monkeypatch.setattr(Path, "touch", lambda path: None)
    with pytest.raises(InputError, match=r"expected all workers to see .*\.units"):
        run_suite(suite, tmp_path / "out", directories=[signals], executor=cluster)


def test_an_attempt_that_comes_second_leaves_the_first_ones_work(tmp_path):
    unit = Note(tmp_path / "unit")
    assert perform_anywhere(unit) is None
    written = (unit.folder / "note").stat().st_mtime_ns
    assert perform_anywhere(unit) is None
    assert (unit.folder / "note").stat().st_mtime_ns == written


def test_an_attempt_whose_run_was_given_up_makes_no_folder(tmp_path):
    assert isinstance(perform_anywhere(Note(tmp_path / "gone" / "unit")), Refusal)
    assert not (tmp_path / "gone").exists()


def test_an_address_without_a_scheduler_is_refused_in_a_line(monkeypatch, capsys):
    monkeypatch.setattr(dask_cluster, "PATIENCE", 0.3)
    with pytest.raises(InputError, match=r"expected a Dask scheduler at tcp://127\.0\.0\.1:9, found none"):
        connected("tcp://127.0.0.1:9")
    assert capsys.readouterr().err == "no scheduler at tcp://127.0.0.1:9 yet: waiting for 0 s\n"
