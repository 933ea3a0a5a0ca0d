"""Every verb that writes, under every fault: nothing lost, nothing that only looks complete, nothing left behind.

One case of each kind here; in ``tox -e slow`` every signal comes at twenty random moments, five of them while the
program starts (eight and two for workers and for ``--force``, which are ``run`` again). Moments are counted in
processor time, which a busy machine does not stretch. The table at the end of the test session says how many cases
there were and what each showed.
"""

import math
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from exitbench.benchmarks.baselines.scratch_folder import SCRATCH
from tests.support.fault_cases import FAULTS, Expected, new_case
from tests.support.fault_server import TEMPORARY, FaultServer
from tests.support.fault_verbs import VERBS, Verb, copy_materials, fill_hub, finished_run, make_materials, snapshot
from tests.support.hub_server import running_hub

pytestmark = pytest.mark.process

WORKING, STARTING = (
    tuple(f"{name}{when}" for name in ("SIGTERM", "SIGKILL", "SIGINT")) for when in ("", " while starting")
)
LIMITS = ("full disk", "few open files", "second instance")
"""Faults that are another one each time."""
KILLED_ONLY = (
    *("run --jobs 2", "report", "site", "table", "figure"),
    *("derive", "cascade", "check --update", "threshold", "cost", "infer"),
)
"""These write a folder as ``run`` or ``import`` does, or a file as ``score`` does: the rest is for the slow tests."""
LATER = ("output to a broken pipe", "output to a full disk")
STARTED = ("run --jobs 2", "compact")
"""These are killed while they start in the default tests too: with workers and without."""

EVERY = [(verb, fault) for verb in VERBS for fault in FAULTS]
SHORT = [
    (verb, fault)
    for verb, fault in EVERY
    if verb.name != "run --force"
    and fault not in LATER
    and (verb.name not in KILLED_ONLY or fault.startswith("SIG"))
    and (verb.name in STARTED or fault not in STARTING)
]


def moments(verb: Verb, fault: str) -> int:
    """How often a verb meets a fault in the slow tests: each time at another moment, or with another limit."""
    if fault in WORKING:
        return round(15 * verb.share)
    if fault in STARTING:
        return round(5 * verb.share)
    return 5 if fault in LIMITS and verb.share == 1 else 1


LONG = [(*pair, moment) for pair in EVERY for moment in range(1, moments(*pair) + 1)]
LONG.sort(key=lambda case: case[2])  # whoever stops early has met every fault with every verb


@pytest.fixture(scope="module")
def materials(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("materials")
    make_materials(folder)
    with pytest.MonkeyPatch.context() as patch:
        finished_run(folder, patch)
    return folder


@pytest.fixture(scope="module")
def server(materials: Path) -> Iterator[FaultServer]:
    with pytest.MonkeyPatch.context() as patch, running_hub() as hub:
        fill_hub(hub, materials)
        for name, value in {"HF_ENDPOINT": hub.address, "HF_HUB_OFFLINE": "0", "HF_HUB_DISABLE_XET": "1"}.items():
            patch.setenv(name, value)
        server = FaultServer()
        yield server
        server.close()


@pytest.fixture(scope="module")
def expected(
    server: FaultServer, materials: Path, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[Verb], Expected]:
    """What each verb leaves when nothing happens, made when it is first asked for."""
    made: dict[str, Expected] = {}

    def of(verb: Verb) -> Expected:
        if verb.name not in made:
            folder = tmp_path_factory.mktemp("expected") / "case"
            copy_materials(materials, folder, verb.needs)
            running = server.start(list(verb.words), folder, folder.with_suffix(".logs"))
            began = time.monotonic()
            running.reach(math.inf)
            used = running.used()
            assert running.wait() == 0, running.err.read_text()
            made[verb.name] = Expected(snapshot(folder), used, time.monotonic() - began)
        return made[verb.name]

    return of


@pytest.fixture
def meet(
    server: FaultServer,
    materials: Path,
    expected: Callable[[Verb], Expected],
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> Callable[[Verb, str, int], None]:
    """Let a verb meet a fault, and note what that showed."""

    def case(verb: Verb, fault: str, moment: int) -> None:
        seed = f"{verb.name} {fault} {moment}"
        showed = FAULTS[fault](new_case(server, verb, materials, tmp_path / "case", expected(verb), seed))
        record_property("fault", f"{verb.name}|{fault}|{showed}")

    return case


@pytest.mark.parametrize(("verb", "fault"), SHORT, ids=[f"{verb.name}: {fault}" for verb, fault in SHORT])
def test_a_verb_meets_a_fault(meet: Callable[[Verb, str, int], None], verb: Verb, fault: str) -> None:
    meet(verb, fault, 0)


def test_what_a_killed_check_leaves_among_temporary_files_is_seen_and_goes(
    server: FaultServer, materials: Path, expected: Callable[[Verb], Expected], tmp_path: Path
) -> None:
    verb = next(verb for verb in VERBS if verb.name == "check --update")
    case = new_case(server, verb, materials, tmp_path / "case", expected(verb), "temporary")
    running, temporary = case.start(), case.folder / TEMPORARY
    while running.is_running() and not any(temporary.glob(f"{SCRATCH}*")):
        time.sleep(0.001)
    running.send(signal.SIGKILL)
    case.ended(running, -signal.SIGKILL)
    assert any(temporary.glob(f"{SCRATCH}*"))
    assert case.next_run_finishes() == "next run: same bytes"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("verb", "fault", "moment"), LONG, ids=[f"{verb.name}: {fault} {moment}" for verb, fault, moment in LONG]
)
def test_a_verb_meets_a_fault_at_any_moment(
    meet: Callable[[Verb, str, int], None], verb: Verb, fault: str, moment: int
) -> None:
    meet(verb, fault, moment)
