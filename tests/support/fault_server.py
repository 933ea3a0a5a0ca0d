"""Processes that run a verb, forked from one that has imported everything: a case takes a second, not ten.

Each process leads a session of its own, so that whatever it leaves behind can be found by the session's number.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import json
import math
import os
import pkgutil
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import exitbench

LIBRARIES = (
    "torch",
    "pandas",
    "transformers",
    "datasets",
    "accelerate",
    "jsonschema",
    "rich.table",
)
NOT_IMPORTED = ("__main__", ".speed", ".templates")
"""Modules of exitbench that nobody imports: the program itself, its benchmarks of speed, and patterns of files."""

PROCESS_CLOCK = 2
"""Of Linux's numbers for the clocks of another process: the time that all its threads have used."""

WAITING = 5.0
"""Seconds after which a process that uses no processor time is taken to wait for others."""

MOST_TICKS = 300 * os.sysconf("SC_CLK_TCK")
"""Processor time of a verb that goes on for ever."""

TEMPORARY = "temporary"
"""Where a process puts its temporary files, inside its own folder."""

FILE_PERMISSIONS = (1 << 1) | (1 << 2) | (1 << 3)
"""CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH and CAP_FOWNER: with them the root user writes into any folder."""


@dataclass(frozen=True)
class Limits:
    """What the system refuses to a process: longer files, more open files, permissions of root, standard output."""

    file_bytes: int | None = None
    open_files: int | None = None
    no_privileges: bool = False
    output: str = "file"


@dataclass(frozen=True)
class Started:
    """A process that leads its session; its standard output and standard error go to files."""

    pid: int
    out: Path
    err: Path

    def send(self, number: int) -> None:
        try:
            os.kill(self.pid, number)
        except ProcessLookupError:
            return

    def is_running(self) -> bool:
        """Whether the process is there and has not ended."""
        try:
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
        except OSError:
            return False

    def used(self) -> float:
        """Seconds of processor time, which a busy machine does not stretch; infinite once the process is gone."""
        try:
            return time.clock_gettime((~self.pid << 3) | PROCESS_CLOCK)
        except OSError:
            return math.inf

    def reach(self, seconds: float) -> None:
        """Return once the process has used so many seconds of processor time, or has ended, or only waits."""
        last, since = -1.0, time.monotonic()
        while (used := self.used()) < seconds:
            if used > last:
                last, since = used, time.monotonic()
            elif not self.is_running() or time.monotonic() - since > WAITING:
                return
            time.sleep(0.002)

    def left_behind(self, seconds: float = 10) -> list[str]:
        """The command lines of processes of this session that are still there after so many seconds."""
        end = time.monotonic() + seconds
        while (alive := _session(self.pid)) and time.monotonic() < end:
            time.sleep(0.02)
        return [process.command for process in alive]


@dataclass(frozen=True)
class Running(Started):
    """A process that was forked by the server."""

    server: FaultServer

    def wait(self, seconds: float = 240) -> int | None:
        """The exit code, negative for a signal; None if it runs on without any work for so many seconds."""
        code: int | None = self.server.ask({"wait": self.pid, "seconds": seconds})
        return code


@dataclass(frozen=True)
class Program(Started):
    """A program that was started as users start it, and so begins with its imports."""

    process: subprocess.Popen[bytes]

    def wait(self, seconds: float = 240) -> int | None:
        """The exit code, negative for a signal; None if it still runs after so many seconds."""
        try:
            return self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None


def start_program(words: list[str], folder: Path, logs: Path) -> Program:
    """``python -m exitbench WORDS`` in ``folder``."""
    logs.mkdir(exist_ok=True)
    out, err = (logs / f"{len(list(logs.iterdir()))}.{name}" for name in ("out", "err"))
    environment = server_environment() | {"TMPDIR": str(folder / TEMPORARY)}
    with out.open("wb") as output, err.open("wb") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "exitbench", *words],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=errors,
            cwd=folder,
            env=environment,
            start_new_session=True,
        )
    return Program(process.pid, out, err, process)


def server_environment() -> dict[str, str]:
    """The environment of everything that is started here."""
    environment = os.environ | {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MPLBACKEND": "agg"}
    return environment | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}


class FaultServer:
    """The forking process and the line between it and the tests."""

    def __init__(self) -> None:
        words = [sys.executable, "-c", "from tests.support.fault_server import serve; serve()"]
        environment = server_environment()
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
        )

    def ask(self, request: dict[str, Any]) -> Any:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def start(self, words: list[str], folder: Path, logs: Path, limits: Limits | None = None) -> Running:
        """``exitbench WORDS`` in ``folder``."""
        logs.mkdir(exist_ok=True)
        out, err = (logs / f"{len(list(logs.iterdir()))}.{name}" for name in ("out", "err"))
        request = {"words": words, "folder": str(folder), "out": str(out), "err": str(err)}
        pid = self.ask(request | asdict(limits or Limits()))
        while not out.exists():  # the last thing before the verb
            time.sleep(0.002)
        return Running(pid, out, err, self)

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)
        assert self.process.stdout is not None
        self.process.stdout.close()


class Alive(NamedTuple):
    """A process that runs: its command line, and the processor time it has used in the kernel's ticks."""

    command: str
    ticks: int


def _session(number: int) -> list[Alive]:
    """The processes of a session."""
    alive = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(fields[3]) == number and fields[0] != "Z":
                command = (folder / "cmdline").read_text().replace("\0", " ")
                alive.append(Alive(command, int(fields[11]) + int(fields[12])))
        except (OSError, IndexError):  # it ended meanwhile
            continue
    return alive


def serve() -> None:
    """Answer requests from standard input until it ends."""
    for module in (*LIBRARIES, *all_modules()):
        importlib.import_module(module)
    gc.freeze()  # else the collector of every process copies all pages
    answers = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        request = json.loads(line)
        answer = _wait(**request) if "wait" in request else _fork(request)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def all_modules() -> list[str]:
    """The modules of exitbench, whichever of them a verb imports late."""
    names = (module.name for module in pkgutil.walk_packages(exitbench.__path__, "exitbench."))
    return [name for name in names if not any(part in name for part in NOT_IMPORTED)]


def _wait(wait: int, seconds: float) -> int | None:
    """Until the end, or until the session has used no processor time for so many seconds: the machine may be busy."""
    used, looked, last = -1, 0.0, time.monotonic()
    while (now := time.monotonic()) - last < seconds:
        done, status = os.waitpid(wait, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if now - looked > 1.0:
            looked, ticks = now, sum(process.ticks for process in _session(wait))
            if ticks != used and ticks < MOST_TICKS:
                used, last = ticks, now
        time.sleep(0.005)
    return None


def _fork(request: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        _run(request)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    except BaseException:  # what the interpreter would print
        traceback.print_exc()
    finally:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            try:
                stream.flush()
            except (OSError, ValueError):
                code = code or 120
        os._exit(code)


def _run(request: dict[str, Any]) -> None:
    os.setsid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(request["folder"])
    # As a program has it once torch is imported, which asks for it: here that was the server's own.
    os.environ["TMPDIR"] = tempfile.tempdir = str(Path(request["folder"]) / TEMPORARY)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    unready = f"{request['out']}.unready"
    out, err = (os.open(name, os.O_WRONLY | os.O_CREAT, 0o644) for name in (unready, request["err"]))
    os.dup2(err, 2)
    if request["output"] == "broken pipe":
        reading, out = os.pipe()
        os.close(reading)
    elif request["output"] == "full":
        out = os.open("/dev/full", os.O_WRONLY)
    os.dup2(out, 1)
    os.closerange(3, 256)
    if request["output"] == "closed":
        os.close(1)
        sys.stdout = None  # type: ignore[assignment] # as the interpreter finds it
    if request["file_bytes"] is not None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (request["file_bytes"],) * 2)
    if request["open_files"] is not None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (request["open_files"],) * 2)
    if request["no_privileges"] and os.geteuid() == 0:
        _drop(FILE_PERMISSIONS)
    sys.argv = ["exitbench", *request["words"]]
    from exitbench.cli.app import main

    Path(unready).rename(request["out"])
    main()


def _drop(capabilities: int) -> None:
    """Give up some of root's capabilities, so that the modes of files hold for root as well."""
    libc = ctypes.CDLL(None, use_errno=True)
    header = struct.pack("Ii", 0x20080522, 0)
    data = ctypes.create_string_buffer(24)
    if libc.capget(header, data):
        raise OSError(ctypes.get_errno(), "capget")
    words = list(struct.unpack("6I", data.raw))
    words[0] &= ~capabilities
    if libc.capset(header, struct.pack("6I", *words)):
        raise OSError(ctypes.get_errno(), "capset")
