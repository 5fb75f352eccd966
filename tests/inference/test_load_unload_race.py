"""Loads and unloads that race: in the end rows, runtime, jobs and memory say the same.

Real supervisor, real database, real tiny models; loading itself is a stand-in that takes no time, so
that hundreds of races fit into seconds.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.db import close_old_connections

from accel.backend import MemoryUse
from inference import catalogue
from inference import supervisor as supervisor_module
from inference.loading import EngineSettings, LoadPlan
from inference.runtime import Runtime, RuntimeLookupError, ServedReplica
from inference.supervisor import Supervisor
from registry import services
from registry.errors import RegistryError
from registry.models import Artifact, Binding, Job, Replica
from registry.states import LIVE, State, UnloadMode, Wanted
from tests.fakes.tiny_gguf import write_tiny_gguf

pytestmark = pytest.mark.django_db(transaction=True)
NAMES = ("one", "two", "three")
SETTLE_S = 60
SETTINGS = EngineSettings(
    backend="reference", kernel_cache_dir=Path("/nonexistent"), num_threads=1, context_len=64
)


class Memory:
    """Stands for what loaded models hold: taken by a load, given back by a close, never twice."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.held: set[str] = set()
        self.num_loads = 0
        self.mistakes: list[str] = []

    def take(self, replica_id: str) -> None:
        with self._lock:
            self.num_loads += 1
            if replica_id in self.held:
                self.mistakes.append(f"{replica_id} was loaded twice")
            self.held.add(replica_id)

    def give_back(self, replica_id: str) -> None:
        with self._lock:
            if replica_id not in self.held:
                self.mistakes.append(f"{replica_id} was freed twice")
            self.held.discard(replica_id)


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    made = Memory()

    def load(plan: LoadPlan, _settings: object, progress: Callable, *_: object, **__: object):
        progress("loading", 0.5)
        made.take(plan.replica_id)
        return ServedReplica(
            replica_id=plan.replica_id,
            served_name=plan.served_name,
            digest=plan.digest,
            context_len=64,
            text=SimpleNamespace(),
            worker=SimpleNamespace(close=lambda message: None, num_slots=8),
            memory=MemoryUse(0, 0, 0),
            free_memory=lambda: made.give_back(plan.replica_id),
        )

    monkeypatch.setattr(supervisor_module, "load_replica", load)
    return made


@pytest.fixture
def artifact(tmp_path: Path) -> Artifact:
    return catalogue.register_file(write_tiny_gguf(tmp_path / "tiny.gguf"), source="test")


@pytest.fixture
def runtime(tmp_path: Path, memory: Memory) -> Iterator[Runtime]:
    made = Runtime()
    supervisor = Supervisor(made, SETTINGS, tmp_path, drain_s=0.5)
    supervisor.start()
    yield made
    supervisor.stop()


def race(artifact: Artifact, runtime: Runtime, seed: int, num_rounds: int) -> None:
    """One operator who does whatever comes to mind, and one client's request now and then."""
    rng = random.Random(seed)
    try:
        for _ in range(num_rounds):
            name = rng.choice(NAMES)
            # Somebody else was faster: an answer, not a fault.
            with suppress(RegistryError, RuntimeLookupError):
                _act(rng, name, artifact, runtime)
            time.sleep(
                rng.random() ** 3 * 0.06
            )  # mostly at once, now and then after a load is done
    finally:
        close_old_connections()


def _act(rng: random.Random, name: str, artifact: Artifact, runtime: Runtime) -> None:
    match rng.randrange(6):
        case 0 | 1:
            services.replica_request(
                artifact=artifact, served_name=name, another=rng.random() < 0.3, actor="test"
            )
        case 2 | 3:
            mode = rng.choice((UnloadMode.DRAIN, UnloadMode.FORCE))
            services.replica_request_unload(wanted=name, mode=mode, timeout_s=0.2, actor="test")
        case 4:
            draining = Replica.objects.filter(wanted=Wanted.UNLOADED, state__in=LIVE).first()
            if draining is not None:
                services.replica_cancel_unload(replica_id=draining.public_id, actor="test")
        case 5:
            with runtime.lease(name):
                time.sleep(rng.random() * 0.02)


def settled() -> bool:
    """Nothing is on its way any more."""
    moving = (State.REQUESTED, State.PLACED, State.LOADING, State.DRAINING)
    is_moving = Replica.objects.filter(state__in=moving).exists()
    is_unwanted = Replica.objects.filter(wanted=Wanted.UNLOADED, state=State.READY).exists()
    return not is_moving and not is_unwanted


def check_ledger(runtime: Runtime, memory: Memory) -> None:
    ready = set(Replica.objects.filter(state=State.READY).values_list("public_id", flat=True))
    assert {each.replica_id for each in runtime.replicas()} == ready
    assert memory.held == ready
    assert not memory.mistakes
    assert not Job.objects.filter(state__in=Job.OPEN).exists()
    assert not Binding.objects.filter(released_at=None).exclude(replica_id__in=ready).exists()
    assert not Replica.objects.filter(state=State.FAILED).exists()
    for replica in runtime.replicas():
        assert replica.num_leases == 0
        assert not replica.draining
    for row in Replica.objects.all():
        moves = [(each.old, each.new) for each in row.transitions.all()]
        assert all(a[1] == b[0] for a, b in itertools.pairwise(moves)), moves
        assert (moves[-1][1] if moves else State.REQUESTED) == row.state


@pytest.mark.parametrize(
    "num_rounds", [40, pytest.param(500, marks=[pytest.mark.slow, pytest.mark.timeout(600)])]
)
def test_the_ledger_is_exact_afterwards(
    artifact: Artifact, runtime: Runtime, memory: Memory, num_rounds: int
) -> None:
    """Four operators at once; then everything is unloaded, and nothing is left."""
    operators = [
        threading.Thread(target=race, args=(artifact, runtime, seed, num_rounds // 4))
        for seed in range(4)
    ]
    for operator in operators:
        operator.start()
    for operator in operators:
        operator.join()
    wait_until(settled)
    wait_until(lambda: not any(each.draining for each in runtime.replicas()))
    check_ledger(runtime, memory)
    assert memory.num_loads > num_rounds // 50  # most are refused: on a busy machine nearly all
    for name in NAMES:
        if Replica.objects.filter(served_name=name, state__in=LIVE).exists():
            services.replica_request_unload(wanted=name, mode=UnloadMode.FORCE, actor="test")
    wait_until(settled)
    assert not memory.held
    assert not list(runtime.replicas())
    check_ledger(runtime, memory)


def test_an_unload_before_the_load_is_no_failure(
    artifact: Artifact, tmp_path: Path, memory: Memory, caplog: pytest.LogCaptureFixture
) -> None:
    """Nothing is loaded, and nothing says that something could not be."""
    supervisor = Supervisor(Runtime(), SETTINGS, tmp_path, drain_s=0.5)
    replica = services.replica_request(artifact=artifact, served_name="one", actor="test")
    services.replica_request_unload(wanted="one", actor="test")
    caplog.set_level("INFO")
    supervisor._released(supervisor._load, replica)  # it was on its way to the loader
    assert not memory.num_loads
    assert "could not be loaded" not in caplog.text
    assert "changed meanwhile" in caplog.text


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SETTLE_S
    while not holds():
        assert time.monotonic() < deadline, list(Replica.objects.values_list("state", "wanted"))
        time.sleep(0.02)
