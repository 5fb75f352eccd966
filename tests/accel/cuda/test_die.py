"""A die as one replica uses it: context, stream, account, and errors that stay where they are."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from accel.cuda.die import Die, own_bytes
from accel.errors import DieFailed, OutOfMemory
from tests.emulator.bench import image
from tests.emulator.emulated_driver import ALLOCATION, COPY, LAUNCH

FILL = 'extern "C" __global__ void fill(float *y) { y[threadIdx.x] = 3; }'


@pytest.fixture
def open_die():
    """Dies that are closed at the end, in whatever state."""
    opened: list[Die] = []

    def open_one(ordinal: int = 0) -> Die:
        opened.append(Die(ordinal))
        return opened[-1]

    yield open_one
    for die in opened:
        die.close()


def launch_fill(die: Die, address: int, threads: int = 32) -> None:
    fill = die.load_module(image(FILL)).get_function("fill")
    fill.prepare("P")
    fill.prepared_async_call((1, 1), (threads, 1, 1), die.stream, address)


def test_what_is_copied_in_is_copied_out(dies, open_die) -> None:
    dies(1)
    die = open_die()
    sent = np.arange(1000, dtype=np.float32)
    received = np.zeros_like(sent)
    with die.current():
        first, second = die.allocate(4000, "a test"), die.allocate(4000, "a test")
        die.copy_in(first.address, sent)
        die.copy_within(second.address, first.address, 4000)
        die.fill_zero(first.address, 4000)
        die.copy_out(received, second.address)
        die.synchronize()
    assert np.array_equal(received, sent)


def test_a_kernel_runs_in_the_stream(dies, open_die) -> None:
    dies(1)
    die = open_die()
    received = np.zeros(32, np.float32)
    with die.current():
        y = die.allocate(128, "a test")
        launch_fill(die, y.address)
        die.copy_out(received, y.address)
        die.synchronize()
    assert (received == 3).all()


def test_the_account_follows_what_is_held(emulated, open_die) -> None:
    """S68: adds with allocations, subtracts with frees, and is empty in the end."""
    die, other = open_die(), open_die()
    with die.current():
        first = die.allocate(1 << 20, "a test")
        die.allocate(1 << 10, "a test")
        pinned = die.pinned((256,), np.float32)
        assert (die.account.allocated_bytes, die.account.pinned_bytes) == (1025 << 10, 1024)
        die.free(first)
        die.free_pinned(pinned)
    with other.current():
        other.allocate(1 << 10, "a test")
    assert (die.account.allocated_bytes, die.account.pinned_bytes) == (1 << 10, 0)
    assert own_bytes(0) == 2 << 10
    die.close()
    other.close()
    assert own_bytes(0) == 0


def test_closing_gives_everything_back(emulated, open_die) -> None:
    die = open_die()
    with die.current():
        die.allocate(100 << 20, "a test")
        die.pinned((1 << 20,), np.uint8)
    assert emulated.used_bytes(0) >= 100 << 20
    die.close()
    die.close()
    assert emulated.used_bytes(0) == 0
    assert emulated.num_contexts() == 0


def test_one_thread_after_the_other_uses_a_die(emulated, open_die) -> None:
    """S67: the loader opens it, the worker runs on it, whoever is there closes it."""
    die = open_die()
    received = np.zeros(4, np.float32)

    def work() -> None:
        with die.current():
            region = die.allocate(16, "a test")
            die.copy_in(region.address, np.full(4, 7, np.float32))
            die.copy_out(received, region.address)
            die.synchronize()

    for target in (work, die.close):
        thread = threading.Thread(target=target)
        thread.start()
        thread.join()
    assert (received == 7).all()
    assert emulated.used_bytes(0) == 0


def test_turns_nest(emulated, open_die) -> None:
    """S67: a die within a die, and within itself; each gets its own turn back."""
    first, second = open_die(0), open_die(1)
    with first.current():
        with second.current(), second.current():
            second.allocate(2048, "a test")
        first.allocate(1024, "a test")
    assert (emulated.used_bytes(0), emulated.used_bytes(1)) == (1024, 2048)


def test_no_room_is_told_with_what_was_wanted(emulated, open_die) -> None:
    emulated.reset(num_dies=1, memory_bytes=64 << 20)
    die = open_die()
    with pytest.raises(OutOfMemory) as refused, die.current():
        die.allocate(100 << 20, "the weights")
    assert str(refused.value) == (
        "Not enough memory for the weights on die 0: 100 MiB were wanted."
    )
    assert die.account.allocated_bytes == 0


def test_no_room_for_page_locked_memory_is_told(emulated, open_die) -> None:
    die = open_die()
    emulated.fail(ALLOCATION, 1)
    with pytest.raises(OutOfMemory, match="page-locked host memory for die 0"), die.current():
        die.pinned((16,), np.uint8)


def test_no_room_for_a_context_is_told(emulated) -> None:
    emulated.reset(num_dies=1, memory_bytes=10 << 20, context_bytes=20 << 20)
    with pytest.raises(OutOfMemory, match="die 0"):
        Die(0)
    assert emulated.num_contexts() == 0


@pytest.mark.parametrize("kind", [LAUNCH, COPY])
def test_a_spoilt_context_takes_down_nobody_else(emulated, open_die, kind) -> None:
    """The error stays with the replica whose context it is, and its bytes come back."""
    broken, sound = open_die(), open_die()
    regions = []
    for die in (broken, sound):
        with die.current():
            regions.append(die.allocate(4096, "a test"))
    emulated.fail(kind, 1)
    received = np.zeros(32, np.float32)
    with pytest.raises(DieFailed, match="Die 0 failed"), broken.current():
        launch_fill(broken, regions[0].address)
        broken.copy_out(received, regions[0].address)
        broken.synchronize()
    with pytest.raises(DieFailed), broken.current():
        broken.allocate(16, "a test")
    broken.close()
    with sound.current():
        launch_fill(sound, regions[1].address)
        sound.copy_out(received, regions[1].address)
        sound.synchronize()
    assert (received == 3).all()
    assert emulated.used_bytes(0) == 4096
    assert own_bytes(0) == 4096


def test_a_die_that_does_not_exist_is_named(emulated) -> None:
    with pytest.raises(DieFailed, match="Die 9 failed"):
        Die(9)


def test_an_event_orders_the_streams_of_two_replicas(dies, open_die) -> None:
    """S70: one stream waits for the other; the host polls and is never held inside the driver."""
    dies(1)
    first, second = open_die(), open_die()
    received = np.zeros(32, np.float32)
    with first.current():
        done = first.new_event()
        y = first.allocate(128, "a test")
        launch_fill(first, y.address)
        first.record(done)
    with second.current():
        second.follow(done)
        second.synchronize()
    with first.current():
        first.copy_out(received, y.address)
        first.synchronize()
    assert (received == 3).all()
