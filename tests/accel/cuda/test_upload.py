"""Uploads: whole, in chunks, one at a time, and stoppable."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from accel.cuda.die import Die
from accel.cuda.upload import uploading
from accel.errors import DieFailed, OutOfMemory
from tests.emulator.emulated_driver import ALLOCATION, COPY

CHUNK = 4096


@pytest.fixture
def die(dies):
    dies(1)
    opened = Die(0)
    yield opened
    opened.close()


def ignore(num_bytes: int) -> None:
    """Nobody is told."""


@pytest.mark.parametrize("num_bytes", [1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7])
def test_every_byte_arrives(die, num_bytes) -> None:
    sent = np.random.default_rng(num_bytes).integers(0, 256, num_bytes, np.uint8)
    received = np.zeros_like(sent)
    reported: list[int] = []
    with die.current():
        region = die.allocate(num_bytes, "a test")
        with uploading(die, reported.append, CHUNK) as upload:
            upload.send(region.address, sent)
        die.copy_out(received, region.address)
        die.synchronize()
    assert np.array_equal(received, sent)
    assert sum(reported) == num_bytes
    assert max(reported) <= CHUNK


def test_the_source_may_change_once_it_was_sent(die) -> None:
    """The staging is another's: chunks that are still on their way are never overwritten."""
    source = np.zeros(3 * CHUNK, np.uint8)
    received = np.zeros((4, 3 * CHUNK), np.uint8)
    with die.current():
        region = die.allocate(received.nbytes, "a test")
        with uploading(die, ignore, CHUNK) as upload:
            for value in range(4):
                source[:] = value + 1
                upload.send(region.address + value * source.nbytes, source)
            source[:] = 99
        die.copy_out(received, region.address)
        die.synchronize()
    assert (received == np.arange(1, 5)[:, None]).all()


def test_the_staging_is_given_back(die) -> None:
    with die.current():
        region = die.allocate(CHUNK, "a test")
        with uploading(die, ignore, CHUNK) as upload:
            assert die.account.pinned_bytes == 2 * CHUNK
            upload.send(region.address, np.zeros(CHUNK, np.uint8))
    assert die.account.pinned_bytes == 0


class Enough(Exception):
    """The operator has changed their mind."""


def test_whoever_is_told_may_stop_it(die) -> None:
    def stop(num_bytes: int) -> None:
        raise Enough

    with die.current():
        region = die.allocate(10 * CHUNK, "a test")
        with pytest.raises(Enough), uploading(die, stop, CHUNK) as upload:
            upload.send(region.address, np.zeros(10 * CHUNK, np.uint8))
    assert die.account.pinned_bytes == 0


def test_uploads_take_turns(emulated) -> None:
    """S15: the staging of several loads never adds up."""
    most, now = 0, 0

    def load(ordinal: int) -> None:
        nonlocal most, now
        die = Die(ordinal)
        with die.current():
            region = die.allocate(8 * CHUNK, "a test")
            with uploading(die, ignore, CHUNK) as upload:
                now += 1
                most = max(most, now)
                upload.send(region.address, np.zeros(8 * CHUNK, np.uint8))
                now -= 1
        die.close()

    threads = [threading.Thread(target=load, args=(ordinal % 2,)) for ordinal in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == 1


def test_without_page_locked_memory_nothing_is_left(emulated) -> None:
    die = Die(0)
    emulated.fail(ALLOCATION, 1)
    with pytest.raises(OutOfMemory), die.current(), uploading(die, ignore, CHUNK):
        pytest.fail("there is no staging")
    assert die.account.pinned_bytes == 0
    with die.current():  # the next one has its turn
        region = die.allocate(CHUNK, "a test")
        with uploading(die, ignore, CHUNK) as upload:
            upload.send(region.address, np.zeros(CHUNK, np.uint8))
    die.close()


def test_a_copy_that_fails_ends_the_upload(emulated) -> None:
    die = Die(0)
    with die.current():
        region = die.allocate(8 * CHUNK, "a test")
    emulated.fail(COPY, 3)
    with pytest.raises(DieFailed), die.current(), uploading(die, ignore, CHUNK) as upload:
        upload.send(region.address, np.zeros(8 * CHUNK, np.uint8))
    die.close()
    assert emulated.used_bytes(0) == 0
