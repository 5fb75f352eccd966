"""Every allocation and every launch may fail: the replica fails with a plain reason and its bytes come
back, while another on the same die answers on as if nothing had been."""

from __future__ import annotations

import time

import pytest

from accel.cuda.die import own_bytes
from registry import services
from registry.selectors import bound_bytes_by_die, die_rooms
from registry.states import State
from tests.emulator.emulated_driver import ALLOCATION, LAUNCH
from tests.inference.dies.wishes import WAIT_S, answer, becomes, wish
from tests.inference.engine.driving import read_all, request_of

pytestmark = pytest.mark.django_db(transaction=True)
FIRST, MIDDLE, LAST = "first", "middle", "last"
# By default three of them; `make test-slow` fails every single one.
WHICH = [FIRST, MIDDLE, LAST, pytest.param("every", marks=pytest.mark.slow)]
ONE_DIE, SPLIT = [0], [0, 1]


def chosen(which: str, total: int) -> list[int]:
    assert total > 2
    return {FIRST: [1], MIDDLE: [total // 2], LAST: [total]}.get(which, list(range(1, total + 1)))


@pytest.fixture
def neighbour(start, runtime, artifact, emulated):
    """A replica on die 0 that must never notice; `check` says that it does not, and nothing is left."""
    start()
    becomes(wish(artifact, "neighbour", dies=[0]), State.READY)
    expected = answer(runtime, "neighbour")
    bound = bound_bytes_by_die()

    def all_held() -> tuple[int, ...]:
        return emulated.used_bytes(0), own_bytes(0), own_bytes(1)

    expected_held = all_held()

    def check() -> None:
        assert answer(runtime, "neighbour") == expected
        assert bound_bytes_by_die() == bound
        # A trial of each die may be under way after a failure: it takes its memory along when it ends.
        deadline = time.monotonic() + WAIT_S
        while (held := all_held()) != expected_held and time.monotonic() < deadline:
            time.sleep(0.01)
        assert held == expected_held
        assert not any(room.failure for room in die_rooms())

    return check


def load_and_count(artifact, emulated, kind: int, dies) -> int:
    """How many operations of the kind a load takes. The replica is unloaded again."""
    before = emulated.count(kind)
    replica = wish(artifact, "counted", dies=dies)
    becomes(replica, State.READY)
    taken = emulated.count(kind) - before
    services.replica_request_unload(wanted="counted", actor="test")
    becomes(replica, State.UNLOADED)
    return taken


@pytest.mark.parametrize("dies", [ONE_DIE, SPLIT], ids=["one die", "split"])
@pytest.mark.parametrize("which", WHICH)
def test_a_load_whose_allocation_fails(neighbour, artifact, emulated, which, dies) -> None:
    for nth in chosen(which, load_and_count(artifact, emulated, ALLOCATION, dies)):
        emulated.fail(ALLOCATION, nth, times=2)  # pycuda tries twice
        replica = wish(artifact, f"tiny-{nth}", dies=dies)
        becomes(replica, State.FAILED)
        assert replica.failure_reason.startswith("Not enough memory for "), nth
        assert replica.failure_reason.endswith(" were wanted."), nth
        emulated.fail(ALLOCATION, 0)
        neighbour()


@pytest.mark.parametrize("dies", [ONE_DIE, SPLIT], ids=["one die", "split"])
@pytest.mark.parametrize("which", WHICH)
def test_a_load_whose_launch_fails(neighbour, artifact, emulated, which, dies) -> None:
    for nth in chosen(which, load_and_count(artifact, emulated, LAUNCH, dies)):
        emulated.fail(LAUNCH, nth)
        replica = wish(artifact, f"tiny-{nth}", dies=dies)
        becomes(replica, State.FAILED)
        assert replica.failure_reason.startswith(("Die 0 failed: ", "Die 1 failed: ")), nth
        neighbour()


@pytest.mark.parametrize("dies", [ONE_DIE, SPLIT], ids=["one die", "split"])
@pytest.mark.parametrize("which", WHICH)
@pytest.mark.parametrize("num_before", [0, 3], ids=["launched", "replayed"])
def test_a_request_whose_launch_fails(
    neighbour, runtime, artifact, emulated, which, dies, num_before
) -> None:
    """Also one that replays what requests before it recorded as graphs."""
    replica = wish(artifact, dies=dies)

    def answers() -> None:
        becomes(replica, State.READY)
        for _ in range(num_before):
            answer(runtime)

    answers()
    before = emulated.count(LAUNCH)
    answer(runtime)
    total = emulated.count(LAUNCH) - before
    for nth in chosen(which, total):
        emulated.fail(LAUNCH, nth)
        with runtime.lease("tiny") as lease:
            stream = lease.replica.worker.submit(request_of([1, 2, 3], max_tokens=3))
            read_all(stream, WAIT_S)
        assert stream.finish is not None
        assert stream.finish.message, nth
        becomes(replica, State.FAILED)
        assert replica.failure_reason.startswith(("Die 0 failed: ", "Die 1 failed: ")), nth
        neighbour()
        services.replica_retry(replica_id=replica.public_id, actor="test")
        answers()
